"""The store with a stopwatch at the verbs of the hot path; all others go straight through."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Sized
from typing import Any, TypeVar, cast

from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.clock import Clock
from tickwheel.ports.registry import Act
from tickwheel.ports.shards import Fed, Snapshot
from tickwheel.ports.store import AttemptNote, Completed, Inserted, NewJob, WorkDefinition
from tickwheel.services.store_writes import StoreWrites

S = TypeVar("S")
T = TypeVar("T")


def measured(store: S, calls: StoreCalls, clock: Clock, writes: StoreWrites | None = None) -> S:
    """The same store, measured; `writes` hears which it refused. It has every verb that the store has."""
    return cast("S", _Measured(store, calls, clock, writes or StoreWrites(clock)))


class _Measured:
    """A verb that is not here is the store's own."""

    def __init__(self, store: Any, calls: StoreCalls, clock: Clock, writes: StoreWrites) -> None:
        self._store, self._calls, self._clock, self._writes = store, calls, clock, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        return await self._written("insert", jobs, self._store.insert_jobs(jobs, act))

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        return await self._written("claim", batch, self._store.claim(batch, now_ms, lease_ms, queued=queued))

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return await self._written("begin", hints, self._store.begin(hints, worker, lease_ms))

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        return await self._written("complete", batch, self._store.complete(batch, notes))

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return await self._sent("renew", batch, self._store.renew(batch, notes))

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        return await self._sent("work", job_ids, self._store.load_work(job_ids))

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        call = self._store.load_timers(from_ms, until_ms, limit, shards)
        rows: Rows = await self._timed("load", call, 0, len)
        return rows

    async def feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        call = self._store.feed(prev, shards, until_ms)
        fed: Fed = await self._timed("feed", call, 0, lambda fed: len(fed.rows))
        return fed

    async def _written(self, verb: str, rows: Sized, call: Awaitable[T]) -> T:
        try:
            answer = await self._sent(verb, rows, call)
        except StoreUnavailable as error:
            self._writes.refused(error)
            raise
        if len(rows):
            self._writes.taken()
        return answer

    def _sent(self, verb: str, rows: Sized, call: Awaitable[T]) -> Awaitable[T]:
        return self._timed(verb, call, len(rows))

    async def _timed(self, verb: str, call: Awaitable[T], sent: int, came: Callable[[T], int] | None = None) -> T:
        """`came` counts the rows of a read in its answer."""
        began_ms = self._clock.monotonic_ms()
        try:
            answer = await call
        except BaseException:
            self._calls.failed(verb, self._clock.monotonic_ms() - began_ms)
            raise
        row_count = sent if came is None else came(answer)
        self._calls.answered(verb, row_count, self._clock.monotonic_ms() - began_ms)
        return answer
