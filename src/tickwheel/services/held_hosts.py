"""Hosts that answered nothing, or asked to be left alone, and whose runs were held for that.

An objective is a promise of the scheduler about itself. Runs that it holds because their target is away start late
by that target's doing, and one customer's dead receiver must not use up the budget of a whole lane. What was due
while a host was away, in the minute before, or in as long again after it came back (what was held is released bit
by bit), is such a run, whenever it starts.

Example: a host is away from 9:00 to 9:10. A run of it that was due at 9:04 and starts at 9:13 says nothing about
the scheduler; nor does one due at 9:15 that starts behind the others at 9:21. One due at 9:30 does.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.domain.breaker import STREAK_MS
from tickwheel.domain.columns import Bools, Ints
from tickwheel.domain.job import TargetType
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import HostClosed, HostOpened, OfTenant
from tickwheel.ports.executor import Work
from tickwheel.services.gates.host_gate import host_of, shown

HOSTS_MOST: Final = 10_000
LEAD_MS: Final = STREAK_MS
"""What waited for the attempts that failed was due before the host was left alone."""
_STILL_MS: Final = (1 << 63) - 1


class HeldHosts:
    """By host, from and until when what is due counts as held. The one that was held longest ago is forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spans: dict[str, tuple[int, int]] = {}

    def hear(self, event: HostOpened | HostClosed) -> None:
        """A host is left alone, or answers again."""
        now_ms = self._clock.now_ms()
        first_ms, until_ms = self._spans.pop(event.host, (0, 0))
        if now_ms > until_ms:
            first_ms = now_ms - LEAD_MS - (event.open_ms if isinstance(event, HostClosed) else 0)
        until_ms = now_ms + event.open_ms if isinstance(event, HostClosed) else _STILL_MS
        self._spans[event.host] = first_ms, until_ms
        while len(self._spans) > HOSTS_MOST:
            del self._spans[next(iter(self._spans))]

    def others(self, works: Sequence[OfTenant], lateness_ms: Ints, over_ms: int) -> Bools | None:
        """Which of these starts were not late (by over so much) for their host; None: all of them."""
        if not self._spans or len(works) != len(lateness_ms):
            return None
        now_ms, others = self._clock.now_ms(), None
        for number in np.flatnonzero(lateness_ms > over_ms).tolist():
            if self._was_held(works[number], now_ms - int(lateness_ms[number])):
                if others is None:
                    others = np.ones(len(lateness_ms), dtype=bool)
                others[number] = False
        return others

    def _was_held(self, work: OfTenant, due_ms: int) -> bool:
        if not isinstance(work, Work) or work.target.type is not TargetType.HTTP_WEBHOOK:
            return False
        span = self._spans.get(shown(host_of(work.target.endpoint)))
        return span is not None and span[0] <= due_ms <= span[1]
