"""The world of the model test: the reference and an adapter side by side, and what must hold of both."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

from msgspec.structs import replace
from tests.servers.memory import memory_folder

from tickwheel.adapters.memory import MemoryStore
from tickwheel.domain.columns import CLAIM, COMPLETION, ClaimAction, ClaimVerdict, CompletionCause, OverlapCode
from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import JobState
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import FINAL, IN_FLIGHT, TERMINAL, RunState, SkipReason, fencing_token
from tickwheel.ports.audit import Audited
from tickwheel.ports.store import (
    AttemptNote,
    Change,
    FirstTimer,
    JobDecision,
    JobOrder,
    JobQuery,
    JobView,
    NewJob,
    Run,
    RunDecision,
    Store,
)
from tickwheel.testing.idle_loop import IdleLoop
from tickwheel.testing.virtual_clock import VirtualClock

from .arena import FAR_MS, Arena, rows_of, timer_values, without_trust
from .decisions import cancel, cancel_run, delete, edit, move_one_off, pause, redrive, resume
from .factories import BACKENDS
from .owner import LEASE_MS, Held, Owner

T = TypeVar("T")
MAX_ATTEMPTS = 3
TENANT = "default"
ONE, TWO = Limit(1, key="one"), Limit(2, Scope.TENANT)
LIMITS = ((), (), (), (ONE,), (ONE, TWO), (replace(ONE, max_waiting=1), TWO), (replace(ONE, max_waiting=0),))
LOOK_UP_ALL_EACH = 10
"""Steps after which all runs are asked for by their keys, also those that no list shows changed: an attempt that
was recorded and should not have been shows there only."""


class World:
    """One world, two stores. Verbs that have nothing to work on do nothing."""

    def __init__(self, adapter: str) -> None:
        self.runner = asyncio.Runner(loop_factory=IdleLoop)
        self.directory = tempfile.TemporaryDirectory(dir=memory_folder())
        self.clock = VirtualClock()
        self.backend = BACKENDS[adapter](Path(self.directory.name), self.clock)
        self.arena = Arena(self.backend, self.clock)
        self.runner.run(self.arena.open())
        self.reference = MemoryStore(self.clock)
        self.owner = Owner(self.arena)
        self.epochs: list[int] = []
        self.sequence = self.workers = 0
        self.jobs: list[NewJob] = []
        self.timers: list[tuple[NewJob, FirstTimer]] = []  # all that were ever seen
        self.waiting: list[tuple[NewJob, FirstTimer]] = []  # those in the store now, in due order
        self.held: list[Held] = []
        self.fences: dict[tuple[bytes, int], int] = {}
        self.final: dict[tuple[bytes, int], RunState] = {}
        self.looked_up: dict[tuple[bytes, int], Run] = {}  # each run as it was when last asked for by its key
        self.looks = 0
        self.take_over()

    def close(self) -> None:
        self.runner.run(self.arena.store.aclose())
        self.runner.close()
        self.backend.drop()
        self.directory.cleanup()

    def both(self, verb: Callable[[Store], Awaitable[T]], show: Callable[[T], object] = lambda value: value) -> T:
        """The same verb on both; the answers must be the same."""

        async def call() -> tuple[T, T]:
            return await verb(self.reference), await verb(self.arena.store)

        expected, found = self.runner.run(call())
        shown, wanted = show(found), show(expected)
        assert shown == wanted, f"{shown}\n\nwas wanted to be\n\n{wanted}"
        return expected

    def take_over(self) -> None:
        self.workers += 1
        self.owner.worker = f"worker-{self.workers}"
        answer = self.both(lambda store: store.acquire(self.owner.worker), lambda epochs: epochs.tolist())
        self.epochs = answer.tolist()

    def insert(self, recurring: bool, delay_ms: int, key: str | None, limits: int) -> None:
        if len(self.jobs) >= 5:
            return
        make = self.arena.recurring if recurring else self.arena.one_off
        if not self.arena.lists_unrenewed:
            delay_ms = max(0, delay_ms)  # a store of a cluster moves a timer that is past up to its clock (A2)
        new = make(self.clock.now_ms() + delay_ms, idempotency_key=key)
        job = replace(new.job, spec=replace(new.job.spec, concurrency=LIMITS[limits]))
        new = replace(new, job=job, request_hash=b"r" if recurring else b"o")
        [answer] = self.both(lambda store: store.insert_jobs([new]), list)
        if answer.job_id == new.job.job_id:
            self.jobs.append(new)

    def wait(self, length_ms: int) -> None:
        self.clock.step_ms(length_ms)

    def wait_for_the_next_timer(self) -> None:
        now_ms = self.clock.now_ms()
        later = [timer.due_ms for _, timer in self.waiting if timer.due_ms > now_ms]
        self.clock.step_ms(min(later, default=now_ms) - now_ms)

    def next_ms(self, timer: FirstTimer, next_in_ms: int) -> int:
        """The next occurrence; where timers that are past are moved up (A2), one that is not past."""
        next_ms = timer.scheduled_ms + next_in_ms
        return next_ms if self.arena.lists_unrenewed else max(next_ms, self.clock.now_ms())

    def claim(self, picks: list[int], stale: bool, skip: bool, next_in_ms: int | None, old_token: bool) -> None:
        if not self.timers:
            return
        offered = self.timers if stale or not self.waiting else self.due_first()
        chosen = [offered[pick % len(offered)] for pick in picks]
        rows = []
        for number, (new, timer) in enumerate(chosen):
            if not old_token:
                self.sequence += 1
            row = self.owner.claim_row(
                new,
                timer,
                max_attempts=MAX_ATTEMPTS,
                fence=fencing_token(self.epochs[shard_of(new.job.job_id)], self.sequence - old_token * number),
                overlap=self.overlap_of(new),
                next_ms=self.next_ms(timer, next_in_ms) if new.job.recurring and next_in_ms else -1,
            )
            if skip:
                row |= {"action": ClaimAction.SKIP, "reason": SkipReason.CATCH_UP}
            rows.append(row)
        batch = rows_of(CLAIM, *rows)
        now_ms = self.clock.now_ms()
        answers = self.both(
            lambda store: store.claim(batch, now_ms, now_ms + LEASE_MS), lambda rows: rows.tolist()
        )
        for (new, timer), fence, answer in zip(chosen, batch["fence"].tolist(), answers.tolist(), strict=True):
            held = Held(new.job.job_id, timer, fence, ClaimVerdict(answer[0]), *answer[1:])
            if held.won:
                assert held.attempt <= MAX_ATTEMPTS or old_token
                self.held.append(held)

    def complete(
        self, picks: list[int], state: RunState, cause: CompletionCause, delay_ms: int, note: AttemptNote | None
    ) -> None:
        if not self.held:
            return
        rows, notes = [], {}
        lost = cause in (CompletionCause.REAPER, CompletionCause.DEAD_OWNER)
        failed = OutcomeClass.LOST if lost else OutcomeClass.RETRYABLE
        for number, pick in enumerate(picks):
            held = self.held_lately(pick)
            to = state
            if to is RunState.SCHEDULED and held.attempt >= MAX_ATTEMPTS and cause is CompletionCause.WORKER:
                to = RunState.FAILED
            unstarted = cause is CompletionCause.UNSTARTED
            outcome = OutcomeClass.SUCCESS if to is RunState.SUCCEEDED else failed
            fields = {
                "cause": cause,
                "outcome": OutcomeClass.UNSTARTED if unstarted else outcome,
                "lost_count": held.lost_count + lost,
            }
            if to is RunState.SCHEDULED:
                fields["retry_ms"] = self.clock.now_ms() + delay_ms
            rows.append(self.owner.completion_row(held, to, **fields))
            if note is not None:
                notes[number] = note
        batch = rows_of(COMPLETION, *rows)
        self.both(
            lambda store: store.complete(batch, notes),
            lambda done: (done.applied.tolist(), set(timer_values(done.follow_ups))),
        )

    def renew(self, pick: int, mark: bool) -> None:
        if not self.held:
            return
        batch = self.owner.renewal_batch(self.held_lately(pick), mark_running=int(mark))
        self.both(lambda store: store.renew(batch), lambda held: held.tolist())

    def change(self, pick: int, delay_ms: int, what: str) -> None:
        if not self.jobs:
            return
        new, due_ms = self.jobs[pick % len(self.jobs)], self.clock.now_ms() + delay_ms
        decide = sensible(what, due_ms)
        self.both(lambda store: store.change_job(TENANT, new.job.job_id, decide))

    def due_first(self) -> list[tuple[NewJob, FirstTimer]]:
        """What is due and not in flight, if there is such; else all that waits."""
        flying = {(held.job_id, held.timer) for held in self.held}
        due = [p for p in self.waiting if p[1].due_ms <= self.clock.now_ms()]
        return [p for p in due if (p[0].job.job_id, p[1]) not in flying] or self.waiting

    def overlap_of(self, new: NewJob) -> OverlapCode:
        """A job keeps its policy; a one-off has nothing to overlap with."""
        return OverlapCode(new.job.job_id[-1] % 3) if new.job.recurring else OverlapCode.ALLOW

    def held_lately(self, pick: int) -> Held:
        """Mostly one of the latest attempts, for older ones are over."""
        reach = len(self.held) if pick % 5 == 0 else min(len(self.held), 4)
        return self.held[-1 - pick // 5 % reach]

    def change_one_run(self, pick: int, again: bool) -> None:
        if not self.held:
            return
        held = self.held[pick % len(self.held)]
        decide = sensible_for_run(again)
        at = held.timer.scheduled_ms
        self.both(lambda store: store.change_run(TENANT, held.job_id, at, decide))

    def restart(self) -> None:
        self.runner.run(self.arena.restart())
        self.looked_up.clear()
        self.take_over()

    def sweep(self, retention_ms: int) -> None:
        if not self.arena.sweeps_rows:
            return
        self.both(lambda store: sweep_all(store, self.clock.now_ms(), retention_ms))
        gone = [new for new in self.jobs if not self.works([new.job.job_id])[0]]
        self.jobs = [new for new in self.jobs if new not in gone]
        self.timers = [pair for pair in self.waiting if pair[0] in self.jobs]  # nobody holds older ones that long

    def works(self, job_ids: list[bytes]) -> list[object]:
        return list(self.both(lambda store: store.load_work(job_ids), without_trust))

    def both_show_the_same(self) -> None:
        self.looks += 1
        if self.looks % LOOK_UP_ALL_EACH == 0:
            self.looked_up.clear()
        rows = self.both(lambda store: store.load_timers(0, FAR_MS, 1000), lambda rows: rows.tolist())
        by_id = {new.job.job_id: new for new in self.jobs}
        known = set(self.timers)
        stored = timer_values(rows)
        self.waiting = [(by_id[job_id], timer) for job_id, timer in stored if job_id in by_id]
        self.timers += [pair for pair in self.waiting if pair not in known]
        self.both(lambda store: store.counts())
        assert self.both(lambda store: cast(Audited, store).audit_slots()) == 0
        if self.arena.lists_unrenewed:
            self.both(lambda store: store.expired(self.clock.now_ms(), 100), list)
        self.both(lambda store: store.list_dead(TENANT, 100, None), lambda page: page.items)
        for order in JobOrder:
            self.list_jobs(order)
        for new in self.jobs:
            self.check_job(new.job.job_id, [timer for job_id, timer in stored if job_id == new.job.job_id])

    def list_jobs(self, order: JobOrder) -> None:
        query = JobQuery(TENANT, limit=100, order=order)
        self.both(lambda store: store.list_jobs(query), lambda page: page.items)

    def look_up(self, listed: Run) -> None:
        """Ask for a run by its key, too: whenever a list shows it changed."""
        key = (listed.job_id, listed.scheduled_ms)
        if self.looked_up.get(key) != listed:
            found = self.both(lambda store: store.get_run(TENANT, *key))
            assert found is not None
            assert replace(found, attempts=()) == listed
            self.looked_up[key] = listed

    def check_job(self, job_id: bytes, timers: list[FirstTimer]) -> None:
        view = self.both(lambda store: store.get_job(TENANT, job_id))
        page = self.both(lambda store: store.list_runs(TENANT, job_id, 100, None), lambda page: page.items)
        taken = {run.scheduled_ms for run in page.items}
        for run in page.items:
            self.look_up(run)
            waiting = [timer for timer in timers if timer.scheduled_ms == run.scheduled_ms]
            assert len(waiting) == (run.state not in TERMINAL and run.state is not RunState.PAUSED), run
            self.check_run(run)
        if view is not None and view.job.recurring:
            live = [timer for timer in timers if timer.gen > 0 and timer.scheduled_ms not in taken]
            assert len(live) == (view.job.state is JobState.ACTIVE)

    def check_run(self, run: Run) -> None:
        assert run.attempt <= MAX_ATTEMPTS
        key = (run.job_id, run.scheduled_ms)
        assert self.final.get(key, run.state) is run.state, "a final state never changes"
        if run.state in FINAL:
            self.final[key] = run.state
        assert self.fences.get(key, 0) <= run.fence, "tokens rise"
        self.fences[key] = run.fence
        if run.state in IN_FLIGHT:
            assert any(held.fence == run.fence and held.job_id == run.job_id for held in self.held)


async def sweep_all(store: Store, now_ms: int, retention_ms: int) -> None:
    """How much one call deletes is each store's own affair; what is left in the end is not."""
    for _ in range(100):
        if not await store.sweep(now_ms, retention_ms):
            return
    raise AssertionError("the sweep never ends")


def sensible(what: str, due_ms: int) -> JobDecision:
    """A change that the services would make of a job in this state, or none."""

    def decide(view: JobView, now_ms: int) -> Change:
        job = view.job
        if what in ("cancel", "delete"):
            return (cancel if what == "cancel" else delete)(view, now_ms)
        if job.state is JobState.PAUSED and what == "pause":
            paused = any(run.state is RunState.PAUSED for run in view.open_runs)
            taken = view.last_run is not None and view.last_run.scheduled_ms >= due_ms
            return resume(due_ms)(view, now_ms) if paused or (job.recurring and not taken) else Change()
        if job.state is not JobState.ACTIVE or view.live is None:
            return Change()
        if what == "pause":
            return pause(view, now_ms)
        runs = view.open_runs + ((view.last_run,) if view.last_run else ())
        if any(run.scheduled_ms >= due_ms for run in runs) or (
            due_ms == view.live.scheduled_ms and not job.recurring
        ):
            return Change()
        return edit(due_ms)(view, now_ms) if job.recurring else move_one_off(due_ms)(view, now_ms)

    return decide


def sensible_for_run(again: bool) -> RunDecision:
    """Redrive what is dead, cancel what is open, leave the rest."""

    def decide(view: JobView, run: Run, now_ms: int) -> Change:
        if again:
            return redrive(view, run, now_ms) if run.state is RunState.FAILED else Change()
        return Change() if run.state in TERMINAL else cancel_run(view, run, now_ms)

    return decide
