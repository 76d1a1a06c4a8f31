"""Random changes, claims, ends and crashes in any order: no job is lost, no chain dies, no timer is left over."""

import random
from collections.abc import Awaitable
from contextlib import suppress

import pytest

from tickwheel.domain.errors import Conflict, InvalidRequest, NotFound
from tickwheel.domain.job import JobState
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.run import FINAL, TERMINAL, RunState
from tickwheel.ports.executor import Work
from tickwheel.ports.store import JobView
from tickwheel.services.job_status import job_run, job_status, next_run_ms

from .desk import HOUR_MS, MINUTE_MS, TENANT, Desk
from .world import FAILED, REFUSED

CRONS = ("* * * * *", "*/7 * * * *", "*/5 * * * *", "0 * * * *")
POLICIES = ("fire_once", "fire_all", "skip")
STEPS = 45


class AnyOrder:
    """One desk, a few jobs, and a dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.desk = Desk()
        self.desk.behave = self._behave
        self.jobs: list[bytes] = []
        self.ends: dict[tuple[bytes, int], tuple[RunState, int]] = {}

    def _behave(self, work: Work) -> Outcome | None:
        return self.dice.choice([OK, OK, OK, FAILED, REFUSED, None])

    async def play(self) -> None:
        for _ in range(3):
            async with self.desk.firing():
                for _ in range(STEPS // 3):
                    await self._step()
                    await self._check()
                await self._check_history()
            self.desk.clock.step_ms(self.dice.choice([0, 5_000, 5 * MINUTE_MS]))

    async def settle(self) -> None:
        """Let everything end well."""
        self.desk.behave = lambda work: OK
        async with self.desk.firing():
            for job_id in self.jobs:
                await self._try(self.desk.jobs.resume(TENANT, job_id))
            await self.desk.clock.advance(HOUR_MS)
            await self._check()
            await self._check_history()
        for job_id in self.jobs:
            view = await self.desk.store.get_job(TENANT, job_id)
            if view is not None and not view.job.recurring:
                assert RunState[job_status(view)] in TERMINAL
                assert await self.desk.live_timers(job_id) == 0

    async def _step(self) -> None:
        moves = [
            self._create,
            self._edit,
            self._edit,
            self._hold,
            self._hold,
            self._end,
            self._put,
            self._pass_time,
        ]
        await self.dice.choice([*moves, self._pass_time, self._cancel_run, self._cancel_run, self._redrive])()

    async def _create(self) -> None:
        if len(self.jobs) < 6:
            if self.dice.random() < 0.5:
                policy = {"policy": self.dice.choice(POLICIES), "max": self.dice.choice([1, 3])}
                overlap = self.dice.choice(["allow", "skip", "buffer_one"])
                self.jobs.append(await self.desk.cron(self.dice.choice(CRONS), catch_up=policy, overlap=overlap))
            else:
                self.jobs.append(await self.desk.once(self.dice.choice([0, 20_000, 5 * MINUTE_MS])))

    async def _edit(self) -> None:
        view = await self._any()
        if view is not None:
            members: dict[str, object] = {"payload": self.dice.randrange(3)}
            if view.job.recurring and self.dice.random() < 0.7:
                members["cron_expression"] = self.dice.choice(CRONS)
            elif self.dice.random() < 0.7:
                ahead_ms = self.dice.choice([-MINUTE_MS, 0, 30_000, 60_000, 5 * MINUTE_MS])
                at_ms = self.desk.now() // MINUTE_MS * MINUTE_MS + ahead_ms
                members["execute_at"] = format_instant(at_ms)
            await self._try(self.desk.edit(view.job.job_id, **members))

    async def _hold(self) -> None:
        view = await self._any()
        if view is not None:
            verb = self.dice.choice([self.desk.jobs.pause, self.desk.jobs.resume])
            await self._try(verb(TENANT, view.job.job_id))

    async def _end(self) -> None:
        view = await self._any()
        if view is not None and self.dice.random() < 0.3:
            verb = self.dice.choice([self.desk.jobs.cancel, self.desk.jobs.delete])
            await self._try(verb(TENANT, view.job.job_id))

    async def _put(self) -> None:
        put = await self.desk.put("named", schedule_type="CRON", cron_expression=self.dice.choice(CRONS))
        if put.view.job.job_id not in self.jobs:
            self.jobs.append(put.view.job.job_id)

    async def _cancel_run(self) -> None:
        view = await self._any()
        if view is not None:
            instants = [run.scheduled_ms for run in view.open_runs]
            instants += [view.live.scheduled_ms] if view.live is not None else []
            if instants:
                at_ms = self.dice.choice(instants)
                await self._try(self.desk.runs_of.cancel(TENANT, view.job.job_id, at_ms))

    async def _redrive(self) -> None:
        await self.desk.dead_letters.redrive_all(TENANT)

    async def _pass_time(self) -> None:
        if self.dice.random() < 0.3:
            self.desk.finish_all(self.dice.choice([OK, FAILED]))
        await self.desk.clock.advance(self.dice.choice([10, 1_000, 20_000, MINUTE_MS, 4 * MINUTE_MS]))

    async def _any(self) -> JobView | None:
        return await self.desk.store.get_job(TENANT, self.dice.choice(self.jobs)) if self.jobs else None

    async def _try(self, change: Awaitable[object]) -> None:
        with suppress(Conflict, InvalidRequest, NotFound):
            await change

    async def _check(self) -> None:
        for job_id in self.jobs:
            view = await self.desk.store.get_job(TENANT, job_id)
            timers = await self.desk.live_timers(job_id)
            if view is None:
                assert timers == 0
                continue
            waiting = [run for run in view.open_runs if run.state is RunState.SCHEDULED]
            under_way = [run for run in view.open_runs if run.state is not RunState.PAUSED]
            assert all(run.retry_ms is not None for run in waiting)
            fires_again = view.live is not None
            assert timers <= len(under_way) + fires_again
            assert timers >= len(waiting) + fires_again
            if view.job.recurring:
                assert fires_again is (view.job.state is JobState.ACTIVE)
            else:
                assert fires_again is (job_run(view) is None)
                over = RunState[job_status(view)] in TERMINAL | {RunState.PAUSED}
                assert over or fires_again or under_way
            assert (next_run_ms(view) is None) is (not waiting and not fires_again)

    async def _check_history(self) -> None:
        """What ended stays as it was, and nothing began early."""
        for job_id in self.jobs:
            for run in await self.desk.runs(job_id):
                end = (run.state, run.fence)
                if run.state in FINAL:
                    assert self.ends.setdefault((job_id, run.scheduled_ms), end) == end
                else:
                    assert (job_id, run.scheduled_ms) not in self.ends
        assert all(call.started_ms >= call.work.scheduled_ms for call in self.desk.calls)


@pytest.mark.parametrize("seed", range(10))
async def test_nothing_is_lost_whatever_the_order(seed: int) -> None:
    game = AnyOrder(seed)
    await game.play()
    await game.settle()
