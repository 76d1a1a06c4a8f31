"""`MemoryCoordinator`: for the nodes of one process. The reference for every other coordinator.

No verb awaits anything, so each is atomic by itself. Locks whose holder lapsed or left are dropped before a verb
acts: a holder that was silent for too long and beats again must not find its lock as if nothing had happened.
"""

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Beat


class _Member(NamedTuple):
    beat: Beat
    changed_ms: int  # monotonic; used for locks only, and never shown


class _Lock(NamedTuple):
    holder: str
    token: int


class MemoryCoordinator:
    """Implements `ports.coordinator.Coordinator`; a lock ends `lapse_ms` after its holder's last beat."""

    def __init__(self, clock: Clock, lapse_ms: int) -> None:
        self._clock, self._lapse_ms = clock, lapse_ms
        self._members: dict[str, _Member] = {}
        self._locks: dict[str, _Lock] = {}
        self._tokens = count(1)

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        self._drop_lapsed()
        known = self._members.get(incarnation)
        if known is None or counter > known.beat.counter:
            self._members[incarnation] = _Member(Beat(counter, payload), self._clock.monotonic_ms())

    async def members(self) -> Mapping[str, Beat]:
        return {incarnation: member.beat for incarnation, member in self._members.items()}

    async def leave(self, incarnation: str) -> None:
        self._members.pop(incarnation, None)

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        self._drop_lapsed()
        if not self._is_beating(incarnation):
            return None
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = _Lock(incarnation, next(self._tokens))
        return lock.token if lock.holder == incarnation else None

    async def release_lock(self, name: str, incarnation: str) -> None:
        if await self.lock_holder(name) == incarnation:
            del self._locks[name]

    async def lock_holder(self, name: str) -> str | None:
        self._drop_lapsed()
        lock = self._locks.get(name)
        return lock.holder if lock else None

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _is_beating(self, incarnation: str) -> bool:
        member = self._members.get(incarnation)
        return member is not None and self._clock.monotonic_ms() - member.changed_ms < self._lapse_ms

    def _drop_lapsed(self) -> None:
        self._locks = {name: lock for name, lock in self._locks.items() if self._is_beating(lock.holder)}
