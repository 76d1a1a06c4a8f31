"""Deletes old entries of the audit log, a small piece at a time with a breath in between.

In a cluster the node that leads does it for all. Two at once would only share the work.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.registry import Registry

FIRST_MS: Final = 30_000
REST_MS: Final = 600_000
PIECE_COUNT: Final = 500
BREATH_MS: Final = 100
"""So up to 5,000 entries a second are deleted, which is more than single requests add on any store."""


class AuditLogRetention:
    """The loop; `keep_ms` 0 keeps everything."""

    def __init__(
        self, *, registry: Registry, clock: Clock, keep_ms: int, is_leader: Callable[[], bool] = lambda: True
    ) -> None:
        self._registry, self._clock, self._keep_ms = registry, clock, keep_ms
        self._is_leader = is_leader

    async def run(self) -> None:
        """Trim, rest, and again, for ever."""
        if not self._keep_ms:
            return
        await self._clock.sleep_ms(FIRST_MS)
        while True:
            while self._is_leader() and await self.trim():
                await self._clock.sleep_ms(BREATH_MS)
            await self._clock.sleep_ms(REST_MS)

    async def trim(self) -> bool:
        """Delete one piece; whether there may be more."""
        before_ms = self._clock.now_ms() - self._keep_ms
        return await self._registry.trim_audit_log(before_ms, PIECE_COUNT) == PIECE_COUNT
