"""`MemoryBriefLeases`: several holders over one dictionary. The reference for the other ones."""

import numpy as np

from tickwheel.domain.columns import Bools, Rows
from tickwheel.ports.clock import Clock


class MemoryBriefLeases:
    """Implements `ports.brief_leases.BriefLeases`. `held` is what holders share: by hint, holder and end."""

    def __init__(self, clock: Clock, holder: str, held: dict[bytes, tuple[str, int]]) -> None:
        self._clock, self._holder, self.held = clock, holder, held

    async def acquire(self, hints: Rows, length_ms: int) -> Bools:
        now_ms = self._clock.monotonic_ms()
        mine = np.zeros(len(hints), dtype=np.bool_)
        for number, hint in enumerate(hints):
            holder, until_ms = self.held.get(hint.tobytes(), ("", 0))
            mine[number] = holder == self._holder or until_ms <= now_ms
            if mine[number]:
                self.held[hint.tobytes()] = (self._holder, now_ms + length_ms)
        return mine

    async def release(self, hints: Rows) -> None:
        for hint in hints:
            if self.held.get(hint.tobytes(), ("", 0))[0] == self._holder:
                del self.held[hint.tobytes()]

    async def aclose(self) -> None:
        """There is nothing to let go of."""
