"""The caller's side of an executor: it starts, cancels, and keeps what was reported."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.executor import Work
from tickwheel.testing.idle_loop import until_idle
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

from .factories import Errand, Open, Subject

PATIENCE_S = 30


class Bench:
    """Breaches of the contract are kept in `faults`: an error inside a report would end in the loop's log."""

    def __init__(self, open_subject: Open) -> None:
        self.clock = VirtualClock()
        self.subject: Subject  # from entering on
        self._opened = open_subject(self.report, self.clock)
        self.reports: list[Sequence[int]] = []
        self.outcomes: dict[int, Outcome] = {}  # the last of each slot
        self.on_report: Callable[[Sequence[int]], None] = lambda slots: None
        self.faults: list[str] = []
        self._started: Counter[int] = Counter()
        self._reported: Counter[int] = Counter()
        self._busy = 0  # inside this many calls of start and cancel
        self._news = asyncio.Event()

    async def __aenter__(self) -> None:
        self.subject = await self._opened.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        """Close the executor; then every start must have had its one report."""
        self.on_report = lambda slots: None
        try:
            await self.aclose(0)
            await until_idle()
        finally:
            await self._opened.__aexit__(None, None, None)
        assert self.faults == []
        assert self._reported == self._started

    def report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        if self._busy:
            self.faults.append(f"{slots} reported from inside start or cancel")
        if len(slots) != len(outcomes):
            self.faults.append(f"{len(slots)} slots with {len(outcomes)} outcomes")
        self.reports.append(list(slots))
        for slot, outcome in zip(slots, outcomes, strict=False):
            self._reported[slot] += 1
            if self._reported[slot] > self._started[slot]:
                self.faults.append(f"slot {slot} was reported more often than started")
            self.outcomes[slot] = outcome
        self._news.set()
        self.on_report(slots)

    def start(self, errand: Errand, *slots: int) -> None:
        target = self.subject.target(errand)
        works = [
            Work(slot, slot.to_bytes(16, "big"), START_MS, 1, 1, 4, 2, "acme", target, b"{}", None)
            for slot in slots
        ]
        self._started.update(slots)
        self._busy += 1
        self.subject.executor.start(works)
        self._busy -= 1

    def cancel(self, *slots: int) -> None:
        self._busy += 1
        self.subject.executor.cancel(slots)
        self._busy -= 1

    async def all_reported(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.open_slots():
                self._news.clear()
                await self._news.wait()

    async def begun(self, count: int) -> None:
        """Wait until that many attempts have begun."""
        async with asyncio.timeout(PATIENCE_S):
            while self.subject.begun_count() < count:
                await asyncio.sleep(0.002)

    async def aclose(self, grace_ms: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.subject.executor.aclose(grace_ms)

    def open_slots(self) -> list[int]:
        """Slots that were started and not reported yet."""
        return sorted((self._started - self._reported).elements())

    def classes(self, *slots: int) -> list[OutcomeClass]:
        return [self.outcomes[slot].outcome_class for slot in slots]
