"""The SQLite store and the reference answer alike, whatever is done to them in whatever order.

One random history drives both, with the same ids, tokens and clock; every answer is compared, and at the end all
that readers see. A history that differs is printed as the seed that makes it.
"""

import random
from collections.abc import Awaitable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conformance.store.arena import without_trust

from tickwheel.adapters.memory import MemoryStore
from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.domain.columns import (
    CLAIM,
    COMPLETION,
    RENEWAL,
    ClaimAction,
    ClaimVerdict,
    CompletionCause,
    OverlapCode,
    empty,
)
from tickwheel.domain.errors import NotFound
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import Job, JobState, ScheduleType
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, IllegalTransition, RunState, SkipReason, fencing_token
from tickwheel.ports.store import (
    AttemptNote,
    Change,
    FirstTimer,
    JobOrder,
    JobQuery,
    JobView,
    LedgerWrite,
    NewJob,
    Run,
    Store,
    WorkDefinition,
)
from tickwheel.services.plans import note_unchanged
from tickwheel.testing.virtual_clock import VirtualClock

from .jobs import one_off, query

STEPS = 120
LEASE_MS = 30_000
PERIOD_MS = 600
TENANTS = ("default", "other")


class History:
    """A random history on both stores."""

    def __init__(self, seed: int, folder: Path, clock: VirtualClock) -> None:
        self.random, self.folder, self.clock = random.Random(seed), folder, clock
        self.stores: list[Store] = [MemoryStore(clock)]
        self.jobs: list[NewJob] = []
        self.held: list[tuple[Any, ...]] = []
        self.read: dict[bytes, WorkDefinition | None] = {}
        self.numbers, self.sequence = count(1), count(1)
        self.epoch = 0

    async def open(self) -> None:
        self.stores.append(await open_sqlite_store(self.folder, self.clock))
        await self.acquire()

    async def close(self) -> None:
        await self.stores.pop().aclose()

    async def restart(self) -> None:
        await self.close()
        self.read = {}
        await self.open()

    async def both(self, *answers: Awaitable[Any]) -> Any:
        """The answer that both give, or the error that both raise."""
        seen = []
        for answer in answers:
            try:
                seen.append(await answer)
            except (IllegalTransition, ValueError, NotFound) as error:
                seen.append((type(error), str(error)))
        first, second = (plain(value) for value in seen)
        assert first == second
        return seen[1]

    async def step(self) -> None:
        moves = [
            (self.insert, 4),
            (self.claim, 10),
            (self.complete, 8),
            (self.renew, 2),
            (self.change, 4),
            (self.pass_time, 4),
            (self.reap, 1),
            (self.acquire, 1),
            (self.restart, 1),
            (self.redrive, 1),
            (self.drop_dead, 1),
            (self.sweep, 1),
        ]
        chosen = self.random.choices([m for m, _ in moves], [w for _, w in moves])[0]
        await chosen()

    async def acquire(self) -> None:
        self.epoch += 1
        name = self.random.choice(["a", "b"])
        await self.both(*(store.acquire(name) for store in self.stores))

    async def insert(self) -> None:
        batch = [self.new_job() for _ in range(self.random.randint(1, 4))]
        if self.jobs and self.random.random() < 0.2:
            batch.append(self.random.choice(self.jobs))
        self.jobs += [new for new in batch if new not in self.jobs]
        await self.both(*(store.insert_jobs(batch) for store in self.stores))

    def new_job(self) -> NewJob:
        number, now_ms = next(self.numbers), self.clock.now_ms()
        due_ms = now_ms + self.random.choice([-50, 0, 0, 5, 500])
        recurring = self.random.random() < 0.5
        job_id = make_job_id(
            created_ms=now_ms,
            shard=self.random.randrange(256),
            due_ms=None if recurring else due_ms,
            random48=number.to_bytes(6, "big"),
        )
        fields: dict[str, Any] = {
            "job_id": job_id,
            "tenant_id": self.random.choice(TENANTS),
            "name": self.random.choice(["mail", "mailing", "report", "ä\U0010fffe"]) + str(number % 7),
            "created_ms": now_ms,
            "updated_ms": now_ms,
            "scheduled_ms": None if recurring else due_ms,
            "tags": self.random.choice([(), (), ("red",), ("red", "blue")]),
            "idempotency_key": self.random.choice([None, None, None, f"key-{number % 5}"]),
        }
        if recurring:
            fields["schedule_type"] = ScheduleType.CRON
        new = one_off(number, **fields)
        return NewJob(new.job, FirstTimer(due_ms, due_ms, 1), bytes([self.random.randrange(2)]))

    async def claim(self) -> None:
        if not self.jobs:
            return
        timers = await self.both(*(store.load_timers(0, 1 << 60, 1_000) for store in self.stores))
        rows = timers.tolist()
        self.random.shuffle(rows)
        jobs = {new.job.job_id: new.job for new in self.jobs}
        claims = [self.claim_row(row, jobs[row[1]]) for row in rows[: self.random.randint(0, 6)]]
        batch = empty(CLAIM, len(claims))
        for number, values in enumerate(claims):
            batch[number] = values
        if self.random.random() < 0.7:  # else what was read for an earlier claim may be out of date
            ids = list(jobs)
            self.read = dict(zip(ids, await self.stores[1].load_work(ids), strict=True))
            assert all(work is None or work.changes > 0 for work in self.read.values())
        note_unchanged(batch, [self.read.get(values[1]) for values in claims])
        now_ms = self.clock.now_ms()
        answers = await self.both(*(store.claim(batch, now_ms, now_ms + LEASE_MS) for store in self.stores))
        for values, answer in zip(claims, answers.tolist(), strict=True):
            if answer[0] == ClaimVerdict.WON:
                self.held.append((values, answer[1], answer[2]))

    def claim_row(self, timer: tuple[Any, ...], job: Job) -> tuple[Any, ...]:
        due_ms, job_id, scheduled_ms, gen, flags = timer
        next_ms, overlap, now_ms = -1, OverlapCode.ALLOW, self.clock.now_ms()
        if job.recurring and gen > 0:
            next_ms = self.random.choice([scheduled_ms + PERIOD_MS] * 9 + [-1])
        if job.recurring:
            overlap = list(OverlapCode)[job_id[-1] % 3]
        skip = self.random.random() < 0.08
        fence = fencing_token(self.epoch, next(self.sequence))
        tenant_limit = self.random.choice([0, 0, 0, 2])
        return (
            self.random.choice([due_ms] * 20 + [now_ms + 1]),
            job_id,
            scheduled_ms,
            gen,
            flags,
            ClaimAction.SKIP if skip else ClaimAction.RUN,
            SkipReason.DEADLINE if skip else SkipReason.NONE,
            overlap,
            self.random.choice([1, 2, 4]),
            self.random.choice([fence] * 20 + [fence >> 1]),
            next_ms,
            0,
            0,
            int(tenant_limit > 0),
            tenant_limit,
        )

    async def complete(self) -> None:
        ends = [self.end_row(held) for held in self.random.sample(self.held, min(len(self.held), 4))]
        batch = empty(COMPLETION, len(ends))
        for number, values in enumerate(ends):
            batch[number] = values
        notes = {n: AttemptNote(f"error {n}", "…") for n, end in enumerate(ends) if end[8] != 0}
        await self.both(*(store.complete(batch, notes) for store in self.stores))
        if self.random.random() < 0.2:
            await self.both(*(store.complete(batch, notes) for store in self.stores))

    def end_row(self, held: tuple[Any, ...]) -> tuple[Any, ...]:
        claim, attempt, lost_count = held
        now_ms = self.clock.now_ms()
        state, cause, outcome = self.random.choice(
            [
                (RunState.SUCCEEDED, CompletionCause.WORKER, OutcomeClass.SUCCESS),
                (RunState.SUCCEEDED, CompletionCause.WORKER, OutcomeClass.SUCCESS),
                (RunState.SUCCEEDED, CompletionCause.WORKER, OutcomeClass.SUCCESS),
                (RunState.SCHEDULED, CompletionCause.WORKER, OutcomeClass.RETRYABLE),
                (RunState.SCHEDULED, CompletionCause.WORKER, OutcomeClass.SNOOZE),
                (RunState.SCHEDULED, CompletionCause.UNSTARTED, OutcomeClass.UNSTARTED),
                (RunState.FAILED, CompletionCause.WORKER, OutcomeClass.PERMANENT),
                (RunState.SCHEDULED, CompletionCause.REAPER, OutcomeClass.LOST),
                (RunState.SCHEDULED, CompletionCause.DEAD_OWNER, OutcomeClass.LOST),
                (RunState.CANCELLED, CompletionCause.WORKER, OutcomeClass.CANCELLED),
            ]
        )
        retry_ms = now_ms + self.random.choice([0, 7, 900]) if state is RunState.SCHEDULED else -1
        started_ms = self.random.choice([0, now_ms - 5, now_ms - 20_000])
        fence = self.random.choice([claim[9]] * 15 + [claim[9] + 1])
        finished_ms = self.random.choice([0, now_ms])
        key = (claim[0], claim[1], claim[2], claim[3], claim[4])
        end = (fence, state, cause, outcome, 200, attempt, lost_count, started_ms, finished_ms, retry_ms)
        return (*key, *end)

    async def renew(self) -> None:
        chosen = self.random.sample(self.held, min(len(self.held), 3))
        batch, now_ms = empty(RENEWAL, len(chosen)), self.clock.now_ms()
        for number, (claim, _, _) in enumerate(chosen):
            mark = self.random.randrange(2)
            batch[number] = (claim[1], claim[2], claim[9], now_ms - 3, now_ms + LEASE_MS, now_ms, mark)
        await self.both(*(store.renew(batch) for store in self.stores))

    async def reap(self) -> None:
        now_ms = self.clock.now_ms()
        await self.both(*(store.expired(now_ms, 100) for store in self.stores))

    async def pass_time(self) -> None:
        self.clock.step_ms(self.random.choice([1, 20, 700, 1_000, LEASE_MS, 86_400_000]))

    async def change(self) -> None:
        if not self.jobs:
            return
        job = self.random.choice(self.jobs).job
        decide = self.random.choice([cancel, delete, edit, pause, retag, forget])
        tenant_id = self.random.choice([job.tenant_id] * 8 + ["nobody"])
        await self.both(*(store.change_job(tenant_id, job.job_id, decide) for store in self.stores))

    async def redrive(self) -> None:
        for tenant_id in TENANTS:
            page = await self.both(*(store.list_dead(tenant_id, 2, None) for store in self.stores))
            for letter in page.items:
                run = letter.run
                key = (tenant_id, run.job_id, run.scheduled_ms)
                await self.both(*(store.change_run(*key, redrive) for store in self.stores))

    async def drop_dead(self) -> None:
        page = await self.both(*(store.list_dead("default", 50, None) for store in self.stores))
        for letter in page.items[:1]:
            key = ("default", letter.run.job_id, letter.run.scheduled_ms)
            await self.both(*(store.drop_dead(*key) for store in self.stores))

    async def sweep(self) -> None:
        retention_ms = self.random.choice([3_600_000, 3 * 86_400_000])
        # Pieces may differ in size, so both sweep until nothing is left to delete.
        for store in self.stores:
            while await store.sweep(self.clock.now_ms(), retention_ms):
                pass

    async def definitions(self, store: Store) -> list[object]:
        return without_trust(await store.load_work([new.job.job_id for new in self.jobs]))

    async def compare_all(self) -> None:
        """Everything that readers see."""
        await self.both(*(store.counts() for store in self.stores))
        await self.both(*(store.load_timers(0, 1 << 60, 1_000) for store in self.stores))
        await self.both(*(self.definitions(store) for store in self.stores))
        for new in self.jobs:
            key = (new.job.tenant_id, new.job.job_id)
            await self.both(*(store.get_job(*key) for store in self.stores))
            page = await self.both(*(store.list_runs(*key, 1_000, None) for store in self.stores))
            for run in page.items:
                await self.both(*(store.get_run(*key, run.scheduled_ms) for store in self.stores))
        for tenant_id in TENANTS:
            await self.both(*(store.list_dead(tenant_id, 100, None) for store in self.stores))
            for filters in FILTERS:
                asked = JobQuery(tenant_id=tenant_id, limit=7, **filters)
                first, second = [await all_pages(store, asked) for store in self.stores]
                assert first == second, filters


FILTERS: list[dict[str, Any]] = [
    {},
    {"order": JobOrder.DUE},
    {"tag": "red"},
    {"name_prefix": "mail"},
    {"name_prefix": "mailing1"},
    {"schedule_type": ScheduleType.CRON},
    *({"status": state.name} for state in RunState),
    *({"status": state.name} for state in JobState),
    {"status": "SCHEDULED", "order": JobOrder.DUE, "tag": "blue"},
    {"due_from_ms": 1_790_000_000_000, "due_to_ms": 1_790_000_900_000},
]


async def all_pages(store: Store, asked: JobQuery) -> list[Any]:
    items, after = [], None
    while True:
        page = await store.list_jobs(replace(asked, after=after))
        items += [plain(item) for item in page.items]
        if page.next_cursor is None:
            return items
        after = page.next_cursor


def plain(value: Any) -> Any:
    """For comparing: arrays as lists; cursors are each store's own, but not whether there is one."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "applied"):
        return value.applied.tolist(), sorted(value.follow_ups.tolist())
    if hasattr(value, "next_cursor"):
        return value.items, value.next_cursor is None
    return list(value) if isinstance(value, list) else value


def cancel(view: JobView, now_ms: int) -> Change:
    live = () if view.live is None else (LedgerWrite(view.live.scheduled_ms, RunState.CANCELLED),)
    job = replace(view.job, state=JobState.CANCELLED, updated_ms=now_ms)
    return Change(job=job, drop_live=True, cancel_open=True, runs=live)


def delete(view: JobView, now_ms: int) -> Change:
    job = replace(view.job, state=JobState.DELETED, updated_ms=now_ms)
    return Change(job=job, drop_live=True, cancel_open=True, forget_key=True)


def edit(view: JobView, now_ms: int) -> Change:
    """Another instant and a higher version; a waiting occurrence of a one-off is superseded."""
    job = view.job
    due_ms = max(now_ms, job.scheduled_ms or 0) + 100 + job.version
    if job.state is not JobState.ACTIVE or view.open_runs or (view.last_run and not job.recurring):
        raise NotFound("not editable")
    edited = replace(job, version=job.version + 1, updated_ms=now_ms, effective_ms=now_ms, name=job.name + "x")
    writes: tuple[LedgerWrite, ...] = ()
    if not job.recurring:
        edited = replace(edited, scheduled_ms=due_ms)
        if view.live is not None:
            writes = (LedgerWrite(view.live.scheduled_ms, RunState.SKIPPED, SkipReason.SUPERSEDED),)
    timer = FirstTimer(due_ms, due_ms, edited.version)
    return Change(job=edited, drop_live=True, timer=timer, runs=writes)


def pause(view: JobView, now_ms: int) -> Change:
    """Pause, or resume what is paused."""
    job = replace(view.job, version=view.job.version + 1, updated_ms=now_ms)
    if view.job.state is JobState.PAUSED:
        job = replace(job, state=JobState.ACTIVE)
        if job.recurring:
            return Change(job=job, timer=FirstTimer(now_ms + 9, now_ms + 9, job.version))
        waiting = [run for run in view.open_runs if run.state is RunState.PAUSED]
        runs = tuple(LedgerWrite(r.scheduled_ms, RunState.SCHEDULED, follow_up_ms=now_ms) for r in waiting)
        return Change(job=job, runs=runs)
    if view.job.state is not JobState.ACTIVE or any(run.state in IN_FLIGHT for run in view.open_runs):
        raise NotFound("not to be paused")
    writes = [LedgerWrite(r.scheduled_ms, RunState.PAUSED) for r in view.open_runs if not job.recurring]
    if view.live is not None and not job.recurring:
        writes.append(LedgerWrite(view.live.scheduled_ms, RunState.PAUSED))
    return Change(job=replace(job, state=JobState.PAUSED), drop_live=True, runs=tuple(writes))


def retag(view: JobView, now_ms: int) -> Change:
    return Change(job=replace(view.job, tags=("blue",), updated_ms=now_ms))


def forget(view: JobView, now_ms: int) -> Change:
    return Change(forget_key=True)


def redrive(view: JobView, run: Run, now_ms: int) -> Change:
    write = LedgerWrite(run.scheduled_ms, RunState.SCHEDULED, follow_up_ms=now_ms, reset_attempts=True)
    return Change(runs=(write,))


def audit(folder: Path) -> None:
    """What must hold in the file itself."""
    counted = (
        "SELECT (SELECT count(*) FROM jobs WHERE state <> 4), (SELECT count(*) FROM timers),"
        " (SELECT count(*) FROM dead_letters)"
    )
    assert query(folder, "SELECT jobs, waiting, dead_letters FROM totals") == query(folder, counted)
    orphans = (
        "SELECT count(*) FROM runs AS r WHERE r.state IN (0, 1, 2, 3) AND NOT EXISTS"
        " (SELECT 1 FROM timers AS t WHERE t.due_ms = r.due_ms AND t.job_id = r.job_id"
        "   AND t.scheduled_ms = r.scheduled_ms AND t.gen = r.timer_gen)"
    )
    assert query(folder, orphans) == [(0,)], "each run that is not over has its timer"
    assert query(folder, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("seed", range(25))
async def test_any_history_gives_the_same_answers(folder: Path, clock: VirtualClock, seed: int) -> None:
    history = History(seed, folder, clock)
    await history.open()
    for _ in range(STEPS):
        await history.step()
    await history.compare_all()
    await history.close()
    audit(folder)
