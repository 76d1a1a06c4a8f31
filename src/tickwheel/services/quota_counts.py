"""What is counted for the limits of tenants: stored jobs, runs by the second, and requests of the last minute."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from heapq import heappop, heappush
from typing import Final

from tickwheel.ports.clock import Clock

RECOUNT_MS: Final = 10_000
"""A count of stored jobs is no older."""
AT_LIMIT_MS: Final = 500
"""At a limit jobs are counted again at once, for some may have been deleted; but not more often than this."""
COUNTING_SHARE: Final = 20
"""And never for more than a twentieth of the time."""
KNOWN_TENANTS: Final = 10_000
DUE_PAIRS: Final = 200_000
"""So many pairs of tenant and second are counted at most; what comes then is bounded when it fires only."""
SECONDS: Final = 60


class JobCount:
    """How many jobs one tenant has: counted now and then, and by what was made here since.

    What is being stored is `open`. What was stored while the store counted may be in its count or not: it counts
    twice then, until the next look.
    """

    __slots__ = ("_count", "_looked_ms", "_looking", "_made", "_open", "_took_ms")

    def __init__(self) -> None:
        self._count = self._made = self._open = self._took_ms = 0
        self._looked_ms: int | None = None
        self._looking = asyncio.Lock()

    @property
    def total(self) -> int:
        """As far as is known here."""
        return self._count + self._made + self._open

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being stored."""
        return not self._open and not self._looking.locked()

    async def reserve(self, wanted: int, limit: int, count: Callable[[int], Awaitable[int]], clock: Clock) -> int:
        """Room for as many of `wanted` as the limit leaves; `count` asks the store, up to a bound."""
        if self._is_worth_a_look(self.total + wanted > limit, clock.monotonic_ms()):
            await self._look(limit, count, clock)
        granted = max(0, min(wanted, limit - self.total))
        self._open += granted
        return granted

    def settle(self, reserved: int, made: int) -> None:
        """Of what was reserved, so much has become of it."""
        self._open -= reserved
        self._made += made

    def _is_worth_a_look(self, full: bool, now_ms: int) -> bool:
        if self._looked_ms is None:
            return True
        age_ms = now_ms - self._looked_ms
        return age_ms >= max(AT_LIMIT_MS if full else RECOUNT_MS, COUNTING_SHARE * self._took_ms)

    async def _look(self, limit: int, count: Callable[[int], Awaitable[int]], clock: Clock) -> None:
        before = self._looked_ms
        async with self._looking:
            if self._looked_ms != before:
                return  # somebody else has looked meanwhile
            began_ms, made_before = clock.monotonic_ms(), self._made
            self._count = await count(limit + 1)
            self._made -= made_before
            self._looked_ms = clock.monotonic_ms()
            self._took_ms = self._looked_ms - began_ms


class DueCounts:
    """How many runs of a tenant were made here for each second from now on."""

    def __init__(self) -> None:
        self._by_second: dict[int, dict[str, int]] = {}
        self._seconds: list[int] = []
        self._pairs = 0

    def __len__(self) -> int:
        return self._pairs

    def take(self, tenant_id: str, second: int, most: int, now_second: int) -> bool:
        """Whether one more may be due in that second; then it is counted."""
        if self.used(tenant_id, second) >= most:
            return False
        self._count(tenant_id, second, 1, now_second)
        return True

    def take_many(self, tenant_id: str, wanted: Mapping[int, int], most: int, now_second: int) -> bool:
        """Whether so many more may be due in these seconds; then they are counted, else none is."""
        if any(self.used(tenant_id, second) + count > most for second, count in wanted.items()):
            return False
        for second, count in wanted.items():
            self._count(tenant_id, second, count, now_second)
        return True

    def _count(self, tenant_id: str, second: int, count: int, now_second: int) -> None:
        counts = self._by_second.get(second)
        if counts is None or tenant_id not in counts:
            if self._pairs >= DUE_PAIRS:
                self._forget_before(now_second)
                if self._pairs >= DUE_PAIRS:
                    return
            self._pairs += 1
        if counts is None:
            self._forget_before(now_second)
            counts = self._by_second[second] = {}
            heappush(self._seconds, second)
        counts[tenant_id] = counts.get(tenant_id, 0) + count

    def give_back(self, tenant_id: str, second: int, count: int = 1) -> None:
        """So many that were counted are not made."""
        counts = self._by_second.get(second)
        if counts is not None and tenant_id in counts:
            counts[tenant_id] = max(0, counts[tenant_id] - count)

    def used(self, tenant_id: str, second: int) -> int:
        """How many are due then."""
        return self._by_second.get(second, {}).get(tenant_id, 0)

    def _forget_before(self, second: int) -> None:
        while self._seconds and self._seconds[0] < second:
            self._pairs -= len(self._by_second.pop(heappop(self._seconds)))


class RequestCounts:
    """Requests by tenant, of each second of the last minute. Times are monotonic ms."""

    def __init__(self) -> None:
        self._second = -1
        self._now: dict[str, int] = {}
        self._before: deque[tuple[int, dict[str, int]]] = deque(maxlen=SECONDS)

    def note(self, tenant_id: str, now_ms: int) -> bool:
        """One more; whether it is the first one of its second."""
        second = now_ms // 1_000
        turned = second != self._second
        if turned:
            self._turn(second)
        counts = self._now
        if tenant_id in counts:
            counts[tenant_id] += 1
        elif len(counts) < KNOWN_TENANTS:
            counts[tenant_id] = 1
        return turned

    def last(self, tenant_id: str, seconds: int, now_ms: int) -> int:
        """How many came in the last so many whole seconds, and in the one that runs."""
        second = now_ms // 1_000
        if second != self._second:
            self._turn(second)
        old = sum(counts.get(tenant_id, 0) for at, counts in self._before if at >= second - seconds)
        return old + self._now.get(tenant_id, 0)

    def _turn(self, second: int) -> None:
        if self._now:
            self._before.append((self._second, self._now))
        self._second, self._now = second, {}
