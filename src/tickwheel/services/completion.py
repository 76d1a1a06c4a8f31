"""Commits the ends of attempts, in batches, each under its fencing token.

One commit is under way at a time; whatever is reported meanwhile forms the next batch, so batches grow with the
load and a lone completion waits for nothing. Only while much waits to be claimed does a commit wait for more ends,
`GATHER_MS` at most: one of thousands costs hardly more than one of hundreds, and claims get the time.

A result counts only once it is committed: until then the rows stay here, and a commit that failed, or whose fate
is unknown, is sent again as it is (the same token and state, so a repeat is harmless). What the store refuses as
stale is counted and dropped: another attempt holds the run.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from tickwheel.domain.columns import COMPLETION, TIMER, Rows, empty
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsEnded, EventSink, LoopFailed
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote, Completed, Ledger

BATCH_ROWS: Final = 4_096
PENDING_LIMIT: Final = 10_000
"""With more than this uncommitted, no new attempt starts."""
GATHER_MS: Final = 50
GATHER_STEP_MS: Final = 5
GATHER_ROWS: Final = 2_048
"""With so many a commit waits for no more."""
FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 2_000


class Completions:
    """The queue of ends; `arm` gets the follow-up timers of retries, `is_crowded` tells whether much waits.

    `on_committed` is told the ends that are in the store.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        events: EventSink,
        arm: Callable[[Rows], None],
        on_room: Callable[[], None],
        on_given_up: Callable[[Rows], None],
        on_committed: Callable[[Rows], None] = lambda ends: None,
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ledger, self._clock, self._events = ledger, clock, events
        self._arm, self._on_room, self._on_given_up = arm, on_room, on_given_up
        self._is_crowded, self._on_committed = is_crowded, on_committed
        self._under_way: Rows = empty(COMPLETION)
        self._rows: list[Rows] = []
        self._notes: dict[int, AttemptNote] = {}
        self._works: list[Work | None] = []
        self._count = 0  # rows in `_rows`
        self._queued = self._settled = 0  # rows ever added; of these: committed, refused or given up
        self._more, self._progress = asyncio.Event(), asyncio.Event()

    @property
    def pending(self) -> int:
        """Ends that are not committed yet."""
        return self._queued - self._settled

    @property
    def full(self) -> bool:
        """Whether new attempts have to wait for commits."""
        return self.pending > PENDING_LIMIT

    def rows(self) -> Rows:
        """All ends that are not committed yet, as COMPLETION rows."""
        return _joined([self._under_way, *self._rows]) if self._rows else self._under_way

    def add(self, rows: Rows, notes: dict[int, AttemptNote], works: list[Work | None]) -> None:
        """Queue COMPLETION rows; `notes` by row number within `rows`. Loop thread only."""
        for number, note in notes.items():
            self._notes[self._count + number] = note
        self._rows.append(rows)
        self._works.extend(works)
        self._count += len(rows)
        self._queued += len(rows)
        self._more.set()

    async def run(self) -> None:
        """Commit for ever."""
        while True:
            await self._more.wait()
            await self._gather()
            await self._commit(*self._take())

    async def _gather(self) -> None:
        until_ms = self._clock.monotonic_ms() + GATHER_MS
        while self._count < GATHER_ROWS and self._is_crowded() and self._clock.monotonic_ms() < until_ms:
            await self._clock.sleep_ms(GATHER_STEP_MS)

    async def flushed(self) -> None:
        """Wait until all that was added before this call is settled."""
        goal = self._queued
        while self._settled < goal:
            self._progress.clear()
            await self._progress.wait()

    def _take(self) -> tuple[Rows, dict[int, AttemptNote], list[Work | None]]:
        self._more.clear()
        taken = empty(COMPLETION) if not self._rows else _joined(self._rows)
        notes, works = self._notes, self._works
        self._rows, self._notes, self._works = [], {}, []
        self._count = 0
        return taken, notes, works

    async def _commit(self, rows: Rows, notes: dict[int, AttemptNote], works: list[Work | None]) -> None:
        self._under_way = rows
        for start in range(0, len(rows), BATCH_ROWS):
            end = min(start + BATCH_ROWS, len(rows))
            part = rows[start:end]
            part_notes = {n - start: note for n, note in notes.items() if start <= n < end}
            done = await self._complete(part, part_notes)
            self._settled += len(part)
            self._progress.set()
            self._on_committed(part)
            if len(done.follow_ups):
                self._arm(done.follow_ups)
            self._events.emit(
                AttemptsEnded(rows=part, applied=done.applied, notes=part_notes, works=works[start:end])
            )
        self._under_way = empty(COMPLETION)
        self._on_room()

    async def _complete(self, rows: Rows, notes: dict[int, AttemptNote]) -> Completed:
        try:
            return await self._complete_until_known(rows, notes)
        except Exception as error:  # a fault of the store's code, which repeating would not cure
            if len(rows) == 1:
                self._events.emit(
                    LoopFailed(loop="completion", error=f"{type(error).__name__}: {error}", retry_in_ms=0)
                )
                self._on_given_up(rows)
                return Completed(np.zeros(1, dtype=np.bool_), empty(TIMER))
        # Halves, until the row that cannot be written is alone: it is given up, and ends as lost with its lease.
        middle = len(rows) // 2
        first = await self._complete(rows[:middle], {n: note for n, note in notes.items() if n < middle})
        rest = {n - middle: note for n, note in notes.items() if n >= middle}
        second = await self._complete(rows[middle:], rest)
        return Completed(*(np.concatenate(parts) for parts in zip(first, second, strict=True)))

    async def _complete_until_known(self, rows: Rows, notes: dict[int, AttemptNote]) -> Completed:
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                return await self._ledger.complete(rows, notes)
            except StoreUnavailable as error:
                self._events.emit(LoopFailed(loop="completion", error=str(error), retry_in_ms=pause_ms))
                await self._clock.sleep_ms(pause_ms)
                pause_ms = min(LONGEST_PAUSE_MS, pause_ms * 2)


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
