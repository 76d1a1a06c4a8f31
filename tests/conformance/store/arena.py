"""What a test of the store works with: the store, its clock, jobs to put in."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from msgspec.structs import replace

from tickwheel.domain.columns import Rows, empty
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import DEFAULT_TENANT, Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.ports.store import FirstTimer, Inserted, JobView, NewJob, Run, Store, WorkDefinition
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import Backend

FAR_MS = 1 << 50
SPEC = Spec(
    target=Target(TargetType.HTTP_WEBHOOK, endpoint="http://sink.example/", headers=(("X-A", "ä\u2028"),)),
    retry=RetryPolicy(max_retries=3, multiplier=1.5),
)
CRON_SPEC = replace(SPEC, cron="*/10 * * * *", timezone="Europe/Helsinki")


def without_trust(works: Iterable[object]) -> list[object]:
    """Definitions but for what lets a claim trust them: whether changes are counted is each store's own matter."""
    return [replace(w, changes=0, updated_ms=0) if isinstance(w, WorkDefinition) else w for w in works]


class Arena:
    """A store and what belongs to it."""

    def __init__(self, backend: Backend, clock: VirtualClock) -> None:
        self._backend, self.clock = backend, clock
        self._numbers = count(1)
        self.store: Store

    @property
    def lists_unrenewed(self) -> bool:
        """Whether `expired` knows of attempts that were never renewed."""
        return self._backend.lists_unrenewed

    @property
    def reads_definitions(self) -> bool:
        """Whether claims are made as usual, with what was read of their jobs just before."""
        return self._backend.reads_definitions

    @property
    def sweeps_rows(self) -> bool:
        """Whether retention deletes row by row."""
        return self._backend.sweeps_rows

    async def open(self) -> None:
        self.store = await self._backend.open()

    async def restart(self) -> Store:
        """The process is gone; another one opens the same data."""
        await self.store.aclose()
        self.store = await self._backend.open()
        return self.store

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def one_off(self, due_ms: int | None = None, *, shard: int = 3, **fields: Any) -> NewJob:
        """A one-off, due now unless told otherwise."""
        due_ms = self.now_ms if due_ms is None else due_ms
        job = self._job(ScheduleType.ONE_OFF, SPEC, shard, due_ms, {"scheduled_ms": due_ms, **fields})
        return NewJob(job, FirstTimer(due_ms, due_ms, 1), b"hash")

    def recurring(self, due_ms: int | None = None, *, shard: int = 5, **fields: Any) -> NewJob:
        """A recurring job whose first occurrence is due now unless told otherwise."""
        due_ms = self.now_ms if due_ms is None else due_ms
        job = self._job(ScheduleType.CRON, CRON_SPEC, shard, None, fields)
        return NewJob(job, FirstTimer(due_ms, due_ms, job.version), b"hash")

    def _job(self, kind: ScheduleType, spec: Spec, shard: int, due_ms: int | None, fields: dict[str, Any]) -> Job:
        number = next(self._numbers)
        created_ms = fields.get("created_ms", self.now_ms)
        job = Job(
            job_id=make_job_id(
                created_ms=created_ms, shard=shard, due_ms=due_ms, random48=number.to_bytes(6, "big")
            ),
            tenant_id=DEFAULT_TENANT,
            name=f"job-{number}",
            schedule_type=kind,
            lane=Lane.DEFAULT,
            spec=spec,
            payload='{"n": 1}',
            created_ms=created_ms,
            updated_ms=created_ms,
        )
        return replace(job, **fields)

    async def insert(self, *jobs: NewJob) -> list[Inserted]:
        return list(await self.store.insert_jobs(jobs))

    async def view(self, new: NewJob) -> JobView:
        view = await self.store.get_job(new.job.tenant_id, new.job.job_id)
        assert view is not None
        return view

    async def run(self, new: NewJob, scheduled_ms: int | None = None) -> Run:
        """The run of that instant, the first timer's unless told otherwise."""
        if scheduled_ms is None:
            assert new.timer is not None
            scheduled_ms = new.timer.scheduled_ms
        run = await self.store.get_run(new.job.tenant_id, new.job.job_id, scheduled_ms)
        assert run is not None
        return run

    async def timers(self, *jobs: NewJob) -> list[FirstTimer]:
        """All unresolved timers, of these jobs if some are given, in load order."""
        wanted = {new.job.job_id for new in jobs}
        rows = await self.store.load_timers(0, FAR_MS, 100_000)
        return [timer for job_id, timer in timer_values(rows) if not wanted or job_id in wanted]


def rows_of(dtype: np.dtype[Any], *rows: Mapping[str, Any]) -> Rows:
    """Rows of `dtype` with these fields, which are all of its fields."""
    assert dtype.names is not None
    batch = empty(dtype, len(rows))
    for number, row in enumerate(rows):
        batch[number] = tuple(row[name] for name in dtype.names)
    return batch


def timer_values(rows: Rows) -> Sequence[tuple[bytes, FirstTimer]]:
    """(job id, timer) of each TIMER row."""
    return [(r[1], FirstTimer(r[0], r[2], r[3])) for r in rows.tolist()]
