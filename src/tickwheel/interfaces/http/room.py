"""How many connections this process keeps, and whom it lets go first.

A connection costs a file descriptor and memory, and anybody can open one. So there is a limit for all and one for
each client's address. When the room is nearly full, connections on which nothing happens are closed, the idlest
first; clients open another one when they need it. Who comes beyond a limit is not left hanging: it gets a *spare*
place, on which only a health check is answered and everything else is turned away with 503. Spare places are few.
The newest takes the oldest's, so that they can't be held against a health check by being slow.

Example: the limit is 10,000 and 10,000 are there. The next one makes those idle for a second or more go, at most
1,000 of them. If all are busy, it sits on a spare place, hears 503 with `Retry-After`, and is closed.
"""

import heapq
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from typing import Final, Protocol

import msgspec
import structlog

SPARE_COUNT: Final = 64
OTHER_FILES_COUNT: Final = 128
"""Descriptors for the store, listeners and the rest, beside connections and webhooks."""
FEWEST_COUNT: Final = 16
NEARLY_FULL: Final = 0.9
IDLE_S: Final = 1.0
"""Who has been idle for less may be in the middle of something."""
LOOK_S: Final = 0.25
"""How often all connections are looked through at most: it takes milliseconds where there are ten thousand."""
TELL_S: Final = 10.0
_IPV6_SITE_BITS: Final = 64

_log: Final = structlog.get_logger()


class RoomLimits(msgspec.Struct, frozen=True):
    """How many connections at a time: in all, and of one client's address."""

    total_count: int = 10_000
    address_count: int = 5_000

    def within(self, files_count: int, webhook_count: int) -> "RoomLimits":
        """The same, or less where this process may not have as many files open."""
        most = files_count - webhook_count - SPARE_COUNT - OTHER_FILES_COUNT
        return RoomLimits(max(FEWEST_COUNT, min(self.total_count, most)), self.address_count)


class Guest(Protocol):
    """A connection, as the room sees it."""

    def idle_since_s(self) -> float | None:
        """Since when nothing happens on it and nothing is expected of us; None: something does."""
        ...

    def leave(self) -> None:
        """Close it: it is idle, and its place is needed."""
        ...

    def turn_away(self) -> None:
        """Tell it that there is no place, and close it."""
        ...


class Room:
    """The connections of one server. All instants are the event loop's."""

    def __init__(self, limits: RoomLimits) -> None:
        self.limits = limits
        self._guests: dict[Guest, str] = {}
        self._spare: dict[Guest, None] = {}
        self._of_address: dict[str, int] = {}
        self._looked_s = self._told_s = float("-inf")
        self._turned_away_count = 0

    @property
    def guest_count(self) -> int:
        """How many have a place of their own."""
        return len(self._guests)

    @property
    def spare_count(self) -> int:
        """How many sit on spare places."""
        return len(self._spare)

    def admit(self, guest: Guest, address: str, now_s: float) -> bool:
        """Whether it has a place of its own; otherwise it has a spare one."""
        if len(self._guests) >= self.limits.total_count:
            self._make_room(now_s)
        key = _site(address)
        count = self._of_address.get(key, 0)
        if len(self._guests) < self.limits.total_count and count < self.limits.address_count:
            self._guests[guest] = key
            self._of_address[key] = count + 1
            return True
        self._tell(now_s, address)
        if len(self._spare) >= SPARE_COUNT:
            oldest = next(iter(self._spare))
            del self._spare[oldest]
            oldest.turn_away()
        self._spare[guest] = None
        return False

    def let_go(self, guest: Guest) -> None:
        """It is closed; may be said again."""
        self._spare.pop(guest, None)
        key = self._guests.pop(guest, None)
        if key is not None:
            count = self._of_address.pop(key) - 1
            if count:
                self._of_address[key] = count

    def tidy(self, now_s: float) -> None:
        """Call it each second: closes the idlest when it is nearly full."""
        if len(self._guests) > self.limits.total_count * NEARLY_FULL:
            self._make_room(now_s)

    def _make_room(self, now_s: float) -> None:
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        surplus = len(self._guests) - int(self.limits.total_count * NEARLY_FULL)
        idle = [
            (since_s, number, guest)
            for number, guest in enumerate(self._guests)
            if (since_s := guest.idle_since_s()) is not None and now_s - since_s >= IDLE_S
        ]
        for _, _, guest in heapq.nsmallest(surplus, idle):
            self.let_go(guest)
            guest.leave()

    def _tell(self, now_s: float, address: str) -> None:
        self._turned_away_count += 1
        if now_s - self._told_s < TELL_S:
            return
        self._told_s = now_s
        _log.warning(
            "http.no_room",
            connection_count=len(self._guests),
            limit_count=self.limits.total_count,
            limit_of_address_count=self.limits.address_count,
            turned_away_count=self._turned_away_count,
            address=address,
        )


@lru_cache(maxsize=1024)
def _site(address: str) -> str:
    """Whose address it is: of IPv6, the network, in which one client has as many addresses as it likes."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _IPV6_SITE_BITS:x}"
