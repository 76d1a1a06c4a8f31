"""Commits the ends that workers report over HTTP, many requests at a time, and tells each what became of its own.

The commits are those of `services.completion`: one is under way, whatever comes meanwhile forms the next one. Ends
are settled in the order in which they were added, so the settled rows of the next commits belong to those who have
waited longest.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.errors import OutcomeUnknown
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsEnded, Event, EventSink
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote, Ledger
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.completion import Completions

PATIENCE_MS: Final = 10_000
"""How long a request waits for its commit; it goes on all the same, and the same report again finds it done."""


class Ends:
    """The ends of one node; `run` commits them."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        events: EventSink,
        arm: Callable[[Rows], None],
        on_committed: Callable[[Rows], None] = lambda ends: None,
    ) -> None:
        self._clock, self._events = clock, events
        self._waiting: deque[_Waiting] = deque()
        self._completions = Completions(
            ledger=ledger,
            clock=clock,
            events=self,
            arm=arm,
            on_room=lambda: None,
            on_given_up=lambda rows: None,
            on_committed=on_committed,
        )

    @property
    def pending(self) -> int:
        """Ends that are not committed yet."""
        return self._completions.pending

    @property
    def full(self) -> bool:
        """Whether too much waits for commits to begin anything."""
        return self._completions.full

    async def run(self) -> None:
        """Commit for ever."""
        await self._completions.run()

    async def commit(self, rows: Rows, notes: dict[int, AttemptNote], works: list[Work | None]) -> Bools:
        """Which of these COMPLETION rows were applied, once it is known. Raises `OutcomeUnknown`."""
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        one = _Waiting(len(rows))
        self._waiting.append(one)
        self._completions.add(rows, notes, works)
        await wait_at_most(one.settled.wait(), PATIENCE_MS, self._clock)
        if not one.settled.is_set():
            raise OutcomeUnknown("the ends are not committed yet; report them again")
        return one.applied

    def add(self, rows: Rows, notes: dict[int, AttemptNote], works: list[Work | None]) -> None:
        """Commit them without anybody waiting for it."""
        if len(rows):
            self._waiting.append(_Waiting(len(rows)))
            self._completions.add(rows, notes, works)

    async def flushed(self) -> None:
        """Wait until all that was added before is settled."""
        await self._completions.flushed()

    def emit(self, event: Event) -> None:
        """As the sink of the commits: what was settled, then on to the others."""
        if isinstance(event, AttemptsEnded):
            self._settle(event.applied)
        self._events.emit(event)

    def _settle(self, applied: Bools) -> None:
        while len(applied):
            first = self._waiting[0]
            applied = applied[first.take(applied) :]
            if first.settled.is_set():
                self._waiting.popleft()


class _Waiting:
    def __init__(self, count: int) -> None:
        self.applied: Bools = np.zeros(count, dtype=np.bool_)
        self.settled = asyncio.Event()
        self._known = 0

    def take(self, applied: Bools) -> int:
        """Note as many as are still missing; how many those were."""
        count = min(len(self.applied) - self._known, len(applied))
        self.applied[self._known : self._known + count] = applied[:count]
        self._known += count
        if self._known == len(self.applied):
            self.settled.set()
        return count
