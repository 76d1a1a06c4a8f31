"""A token bucket for requests and bytes: whole microtokens, and a share of a limit that several nodes hold.

It holds at most `burst` tokens and gains `per_second` each second. What costs more than it can ever hold goes when
it is full, and puts it in debt: so a rate of bytes holds in the long run, and nothing is refused for ever. (For
what waits in line there is `domain.rate`, which counts intervals and not sizes.)

Example: 100 bytes per second, burst 100. A payload of 250 goes at once. The debt of 150 is paid after 1.5 seconds;
then a single byte may go 10 ms later, and 100 bytes once the bucket is full again, a second later.
"""

from typing import Final

_UNIT: Final = 1_000_000


class TokenBucket:
    """The account of one limit; it begins full. Times are monotonic ms."""

    __slots__ = ("_at_ms", "_burst", "_gain", "_level", "_most", "_per_second")

    def __init__(self, per_second: int, burst: int, now_ms: int, parts: int = 1) -> None:
        """`parts`: how many nodes share the limit evenly."""
        self._per_second, self._burst, self._at_ms = per_second, burst, now_ms
        self._level = burst * _UNIT
        self.share(parts)
        self._level = self._most

    @property
    def rate(self) -> tuple[int, int]:
        """Tokens per second and burst, of all nodes together."""
        return self._per_second, self._burst

    def share(self, parts: int) -> None:
        """So many nodes share the limit from now on; each may take one token at once at least."""
        self._gain = max(1, self._per_second * 1_000 // parts)  # microtokens per ms
        self._most = max(_UNIT, self._burst * _UNIT // parts)
        self._level = min(self._level, self._most)

    def take(self, count: int, now_ms: int) -> bool:
        """Whether so many go now; then they are gone."""
        level = self._refill(now_ms)
        cost = count * _UNIT
        if level < (cost if cost < self._most else self._most):
            return False
        self._level = level - cost
        return True

    def take_of_level(self, count: int, now_ms: int) -> bool:
        """Whether so many are there now; then they are gone. Unlike `take` it makes no debt."""
        level, cost = self._refill(now_ms), count * _UNIT
        if level < cost:
            return False
        self._level = level - cost
        return True

    def give_back(self, count: int) -> None:
        """So many were taken and not used."""
        self._level = min(self._most, self._level + count * _UNIT)

    def wait_ms(self, count: int, now_ms: int) -> int:
        """How long until so many may go, if nobody else takes any."""
        missing = min(count * _UNIT, self._most) - self._refill(now_ms)
        return max(0, -(-missing // self._gain))

    def spent(self, now_ms: int) -> int:
        """How many have to come back until it is full."""
        return -(-(self._most - self._refill(now_ms)) // _UNIT)

    def is_full(self, now_ms: int) -> bool:
        """Whether nothing would be lost with it."""
        return self._refill(now_ms) >= self._most

    def _refill(self, now_ms: int) -> int:
        if now_ms > self._at_ms:
            self._level = min(self._most, self._level + (now_ms - self._at_ms) * self._gain)
            self._at_ms = now_ms
        return self._level
