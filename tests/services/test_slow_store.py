"""New jobs are refused before a slow store is in trouble, and taken again when it is well."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from tickwheel.domain.columns import TIMER
from tickwheel.domain.errors import Overloaded
from tickwheel.domain.shedding import COMMIT_LIMIT_MS, Why
from tickwheel.ports.events import IngestShedding
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Inserted, NewJob
from tickwheel.services.ready import KIND_WEBHOOK
from tickwheel.services.shedding import FEW_RUNS, Behind, BehindWatch, Shedding

from .desk import MINUTE_MS, Desk


class SlowDesk(Desk):
    """Its store takes `commit_ms` for an insert."""

    def __init__(self) -> None:
        super().__init__()
        self.commit_ms = 0
        self.behind = Behind()
        self.shedding = Shedding(clock=self.clock, events=self.events, behind=lambda: self.behind)
        self.jobs.shed_by(self.shedding)
        insert = self.memory.insert_jobs

        async def slow(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
            await self.clock.sleep_ms(self.commit_ms)
            return await insert(jobs, act)

        self.memory.insert_jobs = slow  # type: ignore[method-assign]

    async def client(self, answers: list[str], every_ms: int, until_ms: int) -> None:
        """Asks for one job after the other, as a client does that does not wait for answers."""
        async with asyncio.TaskGroup() as requests:
            while self.clock.now_ms() < until_ms:
                try:
                    self.jobs.check_room()
                except Overloaded as refusal:
                    answers.append(f"429 {refusal}")
                else:
                    answers.append("taken")
                    requests.create_task(self.once(MINUTE_MS))
                await self.clock.sleep_ms(every_ms)


async def test_slow_commits_are_answered_with_a_refusal_that_says_why_and_end_by_themselves() -> None:
    desk = SlowDesk()
    answers: list[str] = []
    desk.commit_ms = 10 * COMMIT_LIMIT_MS
    asking = asyncio.create_task(desk.client(answers, 100, desk.clock.now_ms() + 60_000))
    await desk.clock.advance(COMMIT_LIMIT_MS)
    taken = answers.count("taken")
    assert taken == len(answers) <= COMMIT_LIMIT_MS // 100 + 1
    await desk.clock.advance(10_000)
    assert answers.count("taken") <= taken + 1
    assert "the store takes too long to commit; nothing was written, send it again in 1 s" in answers[-1]
    assert str(desk.shedding.why) == "commits"
    desk.commit_ms = 5
    await desk.clock.advance(30_000)
    assert str(desk.shedding.why) == "None"
    assert set(answers[-50:]) == {"taken"}
    await desk.clock.advance(20_000)
    await asking
    assert [event.sheds for event in desk.events.of(IngestShedding)] == [True, False]
    assert desk.shedding.refused[Why.COMMITS] == sum(answer != "taken" for answer in answers)


async def test_hanging_store_is_noticed_though_no_commit_comes_back() -> None:
    desk = SlowDesk()
    desk.commit_ms = 3_600_000
    hanging = asyncio.create_task(desk.once(MINUTE_MS))
    await desk.clock.advance(COMMIT_LIMIT_MS)
    desk.jobs.check_room()
    await desk.clock.advance(1)
    with pytest.raises(Overloaded):
        desk.jobs.check_room()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    desk.jobs.check_room()


async def test_due_runs_that_pile_up_refuse_new_ones_until_they_get_fewer() -> None:
    desk = SlowDesk()
    desk.behind = Behind(1_000, 6_000)
    await desk.clock.advance(600)
    await desk.once(MINUTE_MS)
    desk.behind = Behind(2_000, 6_000)
    await desk.clock.advance(600)
    with pytest.raises(Overloaded, match="started too late"):
        await desk.once(MINUTE_MS)
    desk.behind = Behind(1_500, 1_500)
    await desk.clock.advance(600)
    await desk.once(MINUTE_MS)


async def test_due_runs_that_pile_up_refuse_the_tenant_that_sends_the_flood_and_no_other() -> None:
    desk = SlowDesk()
    flood = [
        b'{"schedule_type": "INSTANT", "target": {"endpoint": "https://a.example/x"}, "tenant_id": "big"}'
    ] * 100
    for _ in range(5):
        await desk.once(MINUTE_MS)
        await desk.jobs.create_many(flood)
    for count in (1_000, 2_000):
        desk.behind = Behind(count, 6_000)
        await desk.clock.advance(600)
        desk.shedding.check()
    with pytest.raises(Overloaded, match="started too late"):
        await desk.jobs.create_many(flood)
    await desk.once(MINUTE_MS)


async def test_quick_store_is_never_refused() -> None:
    desk = SlowDesk()
    answers: list[str] = []
    asking = asyncio.create_task(desk.client(answers, 1, desk.clock.now_ms() + 3_000))
    await desk.clock.advance(5_000)
    await asking
    assert set(answers) == {"taken"}


async def test_claims_are_behind_while_many_due_runs_wait_and_slots_are_free() -> None:
    desk = Desk()
    scheduler = await desk.start()
    watch = BehindWatch(scheduler.ready, scheduler.pools, desk.clock)
    await desk.clock.advance(10_000)
    assert watch() == Behind(0, 0)
    rows = np.zeros(FEW_RUNS + 1, dtype=TIMER)  # due since 1970, but not for long in the way
    scheduler.ready.push(rows)
    assert watch() == Behind(FEW_RUNS + 1, 0)
    assert scheduler.ready.take(KIND_WEBHOOK, 0, 1).shape == (1,)
    assert watch() == Behind(FEW_RUNS, 0)
    scheduler.ready.push(rows[:1])
    scheduler.pools[KIND_WEBHOOK].inflight.take(16)
    assert watch() == Behind(0, 0)  # all slots run something
    await desk.crash(scheduler)
