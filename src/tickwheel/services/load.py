"""What there is to do for workers elsewhere, measured by the owners of the shards and summed over all of them.

Each owner counts what comes due in its shards for workers elsewhere (also where no worker is left that could do
it) and what of it waits. In a cluster that travels with the beats, so any node knows the sum. How long runs take
and how many slots there are, the workers say themselves, with their sessions. Owners watch those; other nodes read
them when they are asked.

All of it is about the workers that all tenants share. What a tenant's own workers do, and what waits for them, is
that tenant's affair: it must call for no worker here, and their slots must do for none.

Arrivals are counted where a timer is sorted, and a timer may be sorted again later: after a while without workers,
say. Only one that has just come due is an arrival, the others wait already.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, Ints, Rows
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.scaling import (
    MEAN_RUN_MS_DEFAULT,
    SLOTS_PER_WORKER_DEFAULT,
    LaneLoad,
    needed_slots,
    needed_workers,
    sum_loads,
)
from tickwheel.ports.clock import Clock
from tickwheel.ports.workers import WorkerState, WorkerStore

BUCKET_MS: Final = 5_000
BUCKET_COUNT: Final = 12
"""Rates are means over the last minute."""
READ_MS: Final = 1_000
FRESH_MS: Final = 5_000
"""A timer that came due within this is an arrival (the safety net looks for older ones only)."""


class Arrivals:
    """Counts by lane, over a sliding minute and in all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._buckets = np.zeros((BUCKET_COUNT, LANE_COUNT), dtype=np.int64)
        self._bucket = self._began_ms // BUCKET_MS
        self.totals = [0] * LANE_COUNT

    def note(self, timers: Rows) -> Ints:
        """TIMER rows that were sorted: those that have just come due are counted; gives how many, by lane."""
        fresh = timers["flags"][timers["due_ms"] > self._clock.now_ms() - FRESH_MS]
        counts: Ints = np.bincount(fresh & FLAG_LANE_MASK, minlength=LANE_COUNT)
        self._buckets[self._turn() % BUCKET_COUNT] += counts
        for lane in range(LANE_COUNT):
            self.totals[lane] += int(counts[lane])
        return counts

    def per_kilosecond(self) -> Sequence[int]:
        """By lane; while this is younger than a minute, over that."""
        self._turn()
        now_ms = self._clock.monotonic_ms()
        whole_ms = (BUCKET_COUNT - 1) * BUCKET_MS + now_ms % BUCKET_MS
        over_ms = max(BUCKET_MS, min(whole_ms, now_ms - self._began_ms))
        return [round(int(count) * 1_000_000 / over_ms) for count in self._buckets.sum(axis=0)]

    def _turn(self) -> int:
        bucket = self._clock.monotonic_ms() // BUCKET_MS
        for old in range(self._bucket + 1, min(bucket, self._bucket + BUCKET_COUNT) + 1):
            self._buckets[old % BUCKET_COUNT] = 0
        self._bucket = bucket
        return bucket


class Waiting(Protocol):
    """What waits for workers elsewhere, in order."""

    def counts(self) -> Sequence[int]: ...

    def oldest_due_ms(self) -> Sequence[int | None]: ...


class Dropped(Protocol):
    """What waits in the store, because no worker that is left could do it."""

    def counts(self) -> Sequence[int]: ...

    def lowest_due_ms(self) -> int | None: ...


def lane_loads(waiting: Waiting, dropped: Dropped, arrivals: Arrivals) -> Sequence[LaneLoad]:
    """Of one owner. The oldest of what was dropped is known for all lanes together only."""
    lowest_ms, loads = dropped.lowest_due_ms(), []
    columns = waiting.counts(), waiting.oldest_due_ms(), dropped.counts(), arrivals.per_kilosecond()
    for count, oldest_ms, dropped_count, rate in zip(*columns, strict=True):
        known = [due_ms for due_ms in (oldest_ms, lowest_ms if dropped_count else None) if due_ms is not None]
        loads.append(LaneLoad(int(count) + dropped_count, rate, min(known, default=0)))
    return loads


class SessionReading:
    """The live sessions, for a node that does not watch them: read when they are wanted, once a second at most."""

    def __init__(self, store: WorkerStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._read_mono_ms: int | None = None
        self.states: Sequence[WorkerState] = ()

    async def refresh(self) -> None:
        """Read them, unless that was done just now. Raises `StoreUnavailable`."""
        now_mono_ms = self._clock.monotonic_ms()
        if self._read_mono_ms is None or now_mono_ms - self._read_mono_ms >= READ_MS:
            self.states = await self._store.workers()
            self._read_mono_ms = now_mono_ms


class LaneNeed(msgspec.Struct, frozen=True):
    """One lane, or all together."""

    backlog: int
    arrivals_per_second: float
    oldest_due_age_ms: int
    needed_slots: float
    needed_workers: int


class Need(msgspec.Struct, frozen=True):
    """The whole picture."""

    lanes: Sequence[LaneNeed]
    all: LaneNeed
    workers: int
    slots: int
    busy: int
    slots_per_worker: float
    mean_run_ms: float


class Demand:
    """Answers how many workers are needed. `loads` gives those of all owners, `states` the live sessions.

    `refresh` makes the sessions known, where nobody does it all the time.
    """

    def __init__(
        self,
        *,
        loads: Callable[[], Sequence[Sequence[LaneLoad]]],
        states: Callable[[], Sequence[WorkerState]],
        clock: Clock,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._loads, self._states, self._clock, self._refresh = loads, states, clock, refresh
        self._mean_run_ms: float = MEAN_RUN_MS_DEFAULT

    async def look(self) -> bool:
        """Whether any owner has said what it has: without that, "nobody is needed" would be made up."""
        if self._refresh is not None:
            await self._refresh()
        return any(self._loads())

    def need(self, drain_seconds: float, slots_per_worker: float | None = None) -> Need:
        """By lane and in all; `slots_per_worker` None: as many as live workers have on average."""
        states = [state for state in self._states() if state.note.tenant_id is None]
        now_ms = self._clock.now_ms()
        slots = sum(state.note.slots for state in states)
        if slots_per_worker is None:
            slots_per_worker = slots / len(states) if slots else SLOTS_PER_WORKER_DEFAULT
        mean_ms = self._mean_run_ms = mean_run_ms(states) or self._mean_run_ms
        loads = sum_loads(self._loads())
        per_lane = [needed_slots(load, mean_ms, drain_seconds) for load in loads]
        busy = sum(state.note.busy for state in states)

        def shown(load: LaneLoad, wanted: float) -> LaneNeed:
            return LaneNeed(
                backlog=load.backlog,
                arrivals_per_second=load.arrivals_per_kilosecond / 1000,
                oldest_due_age_ms=max(0, now_ms - load.oldest_due_ms) if load.oldest_due_ms else 0,
                needed_slots=round(wanted, 3),
                needed_workers=needed_workers(wanted, slots_per_worker),
            )

        return Need(
            lanes=[shown(load, wanted) for load, wanted in zip(loads, per_lane, strict=True)],
            all=shown(total_load(loads), max(sum(per_lane), busy)),  # what runs keeps its worker
            workers=len(states),
            slots=slots,
            busy=busy,
            slots_per_worker=round(slots_per_worker, 3),
            mean_run_ms=round(mean_ms, 3),
        )


def mean_run_ms(states: Sequence[WorkerState]) -> float:
    """Of the workers that know, by their slots; 0: nobody knows."""
    known = [(state.note.run_ms, state.note.slots) for state in states if state.note.run_ms > 0]
    slots = sum(weight for _, weight in known)
    return sum(run_ms * weight for run_ms, weight in known) / slots if slots else 0


def total_load(loads: Sequence[LaneLoad]) -> LaneLoad:
    """All lanes together."""
    return LaneLoad(
        backlog=sum(load.backlog for load in loads),
        arrivals_per_kilosecond=sum(load.arrivals_per_kilosecond for load in loads),
        oldest_due_ms=min((load.oldest_due_ms for load in loads if load.oldest_due_ms), default=0),
    )
