"""How many webhooks of one host may be claimed at a time; the others wait unclaimed, so they hold no slot.

Without it, two thousand runs for a host that hangs would fill every slot, claimed and waiting for their turn,
and no other host would be called. A host has `limit` places, shared between the lanes like the slots of an
executor, so its CRITICAL runs also find room while LOW ones hang.

A host that answers quickly is given more places than it has connections, as many as it has just ended in a
twentieth of a second: the next runs are claimed and ready when a connection becomes free. Example, limit 64: a
host that ended 300 runs in the last 50 ms has 320 places (64 + the most, 4 * 64), one that hangs has 64.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, TIMER, Rows, empty
from tickwheel.domain.job import Spec, TargetType
from tickwheel.domain.lanes import LANE_COUNT, LaneSlots
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Work
from tickwheel.services.ready import KIND_WEBHOOK, ReadyRing, kinds_of

PACE_MS: Final = 50
AHEAD_FACTOR: Final = 4
"""At most this many times `limit` more places for a host that answers quickly."""


class _Host:
    """Places of one host, and what waits for them."""

    __slots__ = ("ended_before", "ended_now", "pace", "promised", "slots", "waiting")

    def __init__(self, limit: int) -> None:
        self.slots = LaneSlots(limit)
        self.waiting = ReadyRing()
        self.promised = 0  # put back into the ready ring for places that are free, not seen again yet
        self.pace = 0  # number of the twentieth of a second that `ended_now` counts
        self.ended_now = self.ended_before = 0

    @property
    def used(self) -> int:
        return sum(self.slots.used)


class HostGate:
    """Counts the webhooks in flight per host. Runs that find no place are kept here, as TIMER rows."""

    def __init__(self, *, limit: int, ready: ReadyRing, clock: Clock) -> None:
        self._limit, self._ready, self._clock = limit, ready, clock
        self._hosts: dict[str, _Host] = {}
        self.held_count = 0

    def __len__(self) -> int:
        return self.held_count

    def admit(self, timers: Rows, specs: Sequence[Spec | None], left_out: Iterable[int]) -> list[int]:
        """Give each webhook a place at its host; the rows that found none, which are held from now on."""
        if not (kinds_of(timers) == KIND_WEBHOOK).any():
            return []
        skipped, held, by_host = set(left_out), list[int](), dict[str, list[int]]()
        lanes = (timers["flags"] & FLAG_LANE_MASK).tolist()
        for number, spec in enumerate(specs):
            if spec is None or spec.target.type is not TargetType.HTTP_WEBHOOK or number in skipped:
                continue
            by_host.setdefault(host_of(spec.target.endpoint), []).append(number)
        for name, numbers in by_host.items():
            placeless = self._enter(name, numbers, lanes)
            if placeless:
                self._hosts[name].waiting.push(timers[placeless])
                held += placeless
        self.held_count += len(held)
        return sorted(held)

    def leave(self, works: Sequence[Work | None]) -> None:
        """These attempts have ended: their places go to what waits."""
        self._leave(((host_of(w.target.endpoint), w.lane) for w in works if w is not None), ended=1)

    def give_back(self, timers: Rows, specs: Sequence[Spec | None], unstarted: Sequence[int]) -> None:
        """These rows of a batch were admitted and then not started."""
        lanes = (timers["flags"] & FLAG_LANE_MASK).tolist()
        self._leave(
            (
                (host_of(spec.target.endpoint), lanes[number])
                for number in unstarted
                if (spec := specs[number]) is not None and spec.target.type is TargetType.HTTP_WEBHOOK
            ),
            ended=0,
        )

    def rows(self) -> Rows:
        """All that is held."""
        held = [host.waiting.rows() for host in self._hosts.values() if len(host.waiting)]
        return np.concatenate(held) if held else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that is held; None when nothing is."""
        lowest = (host.waiting.lowest_due_ms() for host in self._hosts.values())
        return min((due_ms for due_ms in lowest if due_ms is not None), default=None)

    def _enter(self, name: str, numbers: Sequence[int], lanes: Sequence[int]) -> list[int]:
        """Give these rows of a batch places at their host, in order; those that find none."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(self._limit)
        host.promised = max(0, host.promised - len(numbers))
        slots = host.slots
        slots.resize(self._limit + self._ahead(host))
        lane = lanes[numbers[0]]
        if all(lanes[number] == lane for number in numbers):
            room = min(len(numbers), slots.free(lane))
            slots.take(lane, room)
            return list(numbers[room:])
        placeless = []
        for number in numbers:
            lane = lanes[number]
            if slots.free(lane) > 0:
                slots.take(lane, 1)
            else:
                placeless.append(number)
        return placeless

    def _leave(self, places: Iterable[tuple[str, int]], *, ended: int) -> None:
        touched = set()
        for (name, lane), count in Counter(places).items():
            host = self._hosts[name]
            host.slots.release(lane, count)
            host.ended_now += ended * count
            touched.add(name)
        for name in touched:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Put as many of the waiting runs back into the ready ring as there are places for them."""
        host = self._hosts[name]
        host.slots.resize(self._limit + self._ahead(host))
        if not host.used:
            host.promised = 0
        for lane in range(LANE_COUNT):
            count = min(host.waiting.count(KIND_WEBHOOK, lane), host.slots.free(lane) - host.promised)
            if count > 0:
                self._ready.push_back(host.waiting.take(KIND_WEBHOOK, lane, count))
                host.promised += count
                self.held_count -= count
        if not host.used and not len(host.waiting):
            del self._hosts[name]

    def _ahead(self, host: _Host) -> int:
        pace = self._clock.monotonic_ms() // PACE_MS
        if pace != host.pace:
            host.ended_before = host.ended_now if pace == host.pace + 1 else 0
            host.ended_now, host.pace = 0, pace
        return min(max(host.ended_now, host.ended_before), AHEAD_FACTOR * self._limit)


@lru_cache(maxsize=4_096)
def host_of(endpoint: str) -> str:
    """Host and port of a URL, as a name to count under. Takes any text: one odd endpoint must not stop a batch."""
    return endpoint.partition("//")[2].partition("/")[0].partition("?")[0].lower()
