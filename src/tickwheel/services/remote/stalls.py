"""Sees that a worker takes runs which do not begin, though its heart beats.

Threads that hang and never come back, a pool of processes that is gone: the executor accepts a run and nothing
follows. A worker that went on taking would swallow run after run, each for as long as its lease is renewed. So
what has not begun after `STALL_MS` is withdrawn from the executor and handed back, and nothing more is taken. When
an attempt ends there is a place again. If none does, one single run is taken after `PROBE_MS`, as a probe: if it
begins, all is well again; if not, it is handed back after `PROBE_PATIENCE_MS`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tickwheel.domain.job import TargetType
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, WorkerStalled
from tickwheel.ports.executor import Executor
from tickwheel.ports.remote_work import Withdraws
from tickwheel.services.remote.holding import Held

STALL_MS: Final = 10_000
PROBE_MS: Final = 30_000
PROBE_PATIENCE_MS: Final = 1_000


class StallWatch:
    """Of one worker. `look` now and then; tell it of attempts that `ended`."""

    def __init__(self, executors: Mapping[TargetType, Executor], clock: Clock, events: EventSink) -> None:
        self._executors, self._clock, self._events = executors, clock, events
        self._since_mono_ms: int | None = None
        self._probe_mono_ms = 0  # when the latest probe was taken

    @property
    def stalled(self) -> bool:
        """Whether nothing should be taken now."""
        return self._since_mono_ms is not None

    @property
    def wants_probe(self) -> bool:
        """Whether a single run should be taken, to see whether it begins."""
        if self._since_mono_ms is None:
            return False
        return self._clock.monotonic_ms() - max(self._since_mono_ms, self._probe_mono_ms) >= PROBE_MS

    def taken(self) -> None:
        """Something was taken: of a stalled worker, the probe."""
        self._probe_mono_ms = self._clock.monotonic_ms()

    def ended(self) -> None:
        """An attempt that had begun has ended, so there is a place where another one can begin."""
        if self.stalled:
            self._since_mono_ms = None
            self._events.emit(WorkerStalled(stalled=False, handed_back=0))

    def look(self, running: Iterable[Held]) -> bool:
        """Withdraw what has not begun for too long (it is reported UNSTARTED); whether there was any."""
        patience_ms = PROBE_PATIENCE_MS if self.stalled else STALL_MS
        until_mono_ms = self._clock.monotonic_ms() - patience_ms
        old = [held for held in running if held.begun_mono_ms <= until_mono_ms]
        count = sum(self._withdraw(kind, old) for kind in self._executors)
        if count:
            if not self.stalled:
                self._events.emit(WorkerStalled(stalled=True, handed_back=count))
            self._since_mono_ms = self._clock.monotonic_ms()
        elif self._since_mono_ms is not None and any(h.begun_mono_ms > self._since_mono_ms for h in old):
            self.ended()  # the probe has begun, which shows as much
        return count > 0

    def _withdraw(self, kind: TargetType, old: list[Held]) -> int:
        executor = self._executors[kind]
        slots = [held.slot for held in old if held.assignment.target.type is kind]
        return len(executor.withdraw(slots)) if slots and isinstance(executor, Withdraws) else 0
