"""Who may send now: a limit per host, a limit in all, and fairness between hosts and lanes.

An attempt that finds its host at the limit waits in that host's line, so a slow receiver holds up nobody else.
Hosts that have both room and waiting attempts take turns for the shared connections. In a line the higher lane
goes first, but each eighth turn belongs to the lowest lane that waits: a busy receiver must not hold a LOW
attempt (with its lease and its slot) for ever.
"""

from collections import deque
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

LANE_COUNT: Final = 4
_LOWEST_TURN: Final = 8


class Line(Generic[Item]):
    """What waits for one host."""

    __slots__ = ("_lanes", "_turn")

    def __init__(self) -> None:
        self._lanes: tuple[deque[Item], ...] = tuple(deque() for _ in range(LANE_COUNT))
        self._turn = 0

    def __bool__(self) -> bool:
        return any(self._lanes)

    def put(self, lane: int, item: Item) -> None:
        self._lanes[lane].append(item)

    def take(self) -> Item:
        """The next one. Raises IndexError if none waits."""
        self._turn = (self._turn + 1) % _LOWEST_TURN
        lanes = reversed(self._lanes) if self._turn == 0 else self._lanes
        for lane in lanes:
            if lane:
                return lane.popleft()
        raise IndexError("nothing waits")

    def remove(self, lane: int, item: Item) -> None:
        """Raises ValueError if it does not wait."""
        self._lanes[lane].remove(item)


class Host(Generic[Item]):
    """One host and port: how many requests it is being sent, and what waits."""

    __slots__ = ("active_count", "line", "name", "queued")

    def __init__(self, name: str) -> None:
        self.name = name
        self.active_count = 0
        self.line: Line[Item] = Line()
        self.queued = False  # whether it stands in the round of hosts that have room and waiting attempts


class Turnstile(Generic[Item]):
    """Admits attempts within both limits."""

    def __init__(self, *, host_limit_count: int, total_limit_count: int) -> None:
        self._host_limit_count = host_limit_count
        self._total_limit_count = total_limit_count
        self._hosts: dict[str, Host[Item]] = {}
        self._round: deque[Host[Item]] = deque()
        self._active_count = 0

    def enter(self, name: str, lane: int, item: Item) -> Host[Item]:
        """Let `item` wait for the host called `name`; `admit` gives it back when it may go."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name)
        host.line.put(lane, item)
        self._queue(host)
        return host

    def admit(self) -> Item | None:
        """The next one that may go now, counted as active; None when a limit is reached or nothing waits."""
        while self._round and self._active_count < self._total_limit_count:
            host = self._round.popleft()
            host.queued = False
            if not host.line:
                self._forget_idle(host)
                continue
            item = host.line.take()
            host.active_count += 1
            self._active_count += 1
            self._queue(host)
            return item
        return None

    def leave(self, host: Host[Item]) -> None:
        """An admitted item is done."""
        host.active_count -= 1
        self._active_count -= 1
        self._queue(host)
        self._forget_idle(host)

    def withdraw(self, host: Host[Item], lane: int, item: Item) -> None:
        """A waiting item does not want to go any more."""
        host.line.remove(lane, item)
        self._forget_idle(host)

    def _queue(self, host: Host[Item]) -> None:
        if not host.queued and host.line and host.active_count < self._host_limit_count:
            host.queued = True
            self._round.append(host)

    def _forget_idle(self, host: Host[Item]) -> None:
        if not host.active_count and not host.line and not host.queued:
            self._hosts.pop(host.name, None)
