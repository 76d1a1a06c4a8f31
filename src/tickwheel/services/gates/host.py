"""One target's places: how many of its runs may be claimed now, and which wait for it.

A host that answers quickly is given more places than it has connections, as many as it has just ended in a
twentieth of a second: the next runs are claimed and ready when a connection becomes free. Example, limit 64: a
host that ended 300 runs in the last 50 ms has 320 places (64 + the most, 4 * 64), one that hangs has 64. One that
pushes back has what `Aimd` leaves it, and nothing ahead.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwheel.domain.aimd import Aimd
from tickwheel.domain.breaker import Breaker, BreakerState, Cause
from tickwheel.domain.columns import Ints
from tickwheel.domain.concurrency import RunKey
from tickwheel.domain.lanes import LaneSlots
from tickwheel.domain.rate import Gcra
from tickwheel.services.gates.waiting import Waiting

PACE_MS: Final = 50
AHEAD_FACTOR: Final = 4
"""At most this many times `limit` more places for a host that answers quickly."""


class Ends(NamedTuple):
    """What attempts at one host came to, in the order of their reports; times are monotonic ms."""

    began_ms: Sequence[int]
    good: Sequence[bool]
    answered: Sequence[bool]
    failed: Sequence[bool]
    pushed: Sequence[bool]
    retry_after_ms: int | None  # the longest


class Change(NamedTuple):
    """A breaker that opened or closed."""

    opened: bool
    closed: bool


class Host:
    """Places of one host (or of one rated handler), and what waits for them."""

    __slots__ = (
        "aimd",
        "breaker",
        "ended_before",
        "ended_now",
        "idle_since_ms",
        "limit",
        "name",
        "pace",
        "probe",
        "promised",
        "rate",
        "slots",
        "waiting",
    )

    def __init__(self, name: str, limit: int, kind: int, rate: Gcra | None) -> None:
        self.name, self.limit, self.rate = name, limit, rate
        self.slots = LaneSlots(limit)
        self.waiting = Waiting(kind)
        self.promised = 0  # put back into the ready ring for places that are free, not seen again yet
        self.pace = 0  # number of the twentieth of a second that `ended_now` counts
        self.ended_now = self.ended_before = 0
        self.aimd, self.breaker = Aimd(limit), Breaker()
        self.probe: RunKey | None = None  # the one run that a half-open breaker lets go, on its way
        self.idle_since_ms = 0

    @property
    def used(self) -> int:
        return sum(self.slots.used)

    @property
    def idle(self) -> bool:
        return not self.used and not len(self.waiting)

    def is_calm(self, now_ms: int) -> bool:
        """Whether there is nothing about it to remember."""
        return self.aimd.at_ceiling and self.breaker.is_calm(now_ms)

    def resize(self, now_ms: int) -> None:
        """Give it the places that it has now."""
        aimd = self.aimd
        places = self.limit + self._ahead(now_ms) if aimd.at_ceiling else aimd.limit
        if places != self.slots.capacity:
            self.slots.resize(places)

    def room(self, lane: int, now_ms: int) -> int:
        """How many more of this lane may be claimed now."""
        if not self.breaker.closed:
            state = self.breaker.look(now_ms)
            return 0 if state is BreakerState.OPEN or self.probe is not None else 1
        room = self.slots.free(lane)
        return room if self.rate is None or not room else min(room, self.rate.available(now_ms))

    def take(self, lane: int, count: int, now_ms: int) -> None:
        """So many are going to be claimed; the caller has asked `room` before, and names the `probe`."""
        self.slots.take(lane, count)
        if count and self.rate is not None:
            self.rate.take(count, now_ms)

    def note_ended(self, count: int, now_ms: int) -> None:
        """So many attempts ended, however."""
        self._turn_page(now_ms)
        self.ended_now += count

    def learn_good(self, began_ms: Ints, now_ms: int) -> Change | None:
        """These all ended well. Called before their places are given back."""
        aimd, breaker = self.aimd, self.breaker
        if aimd.at_ceiling and self.used > self.limit:
            # While it is given more than its limit it answers within the pace; times include the waiting in line.
            aimd.tally(len(began_ms), now_ms)
        else:
            took_ms = (now_ms - began_ms[began_ms > aimd.cut_ms]).tolist()
            aimd.observe(took_ms, 0, full=self._is_full(), now_ms=now_ms)
        if breaker.closed:
            breaker.answered(now_ms)
        elif (began_ms > breaker.since_ms).any() and breaker.answered(now_ms):
            return self._closed()
        return None

    def learn(self, ends: Ends, now_ms: int, fraction: float) -> Change | None:
        """As `learn_good`, of any ends. `fraction`: the jitter of a pause."""
        breaker, was_closed = self.breaker, self.breaker.closed
        since_ms, cut_ms = breaker.since_ms, self.aimd.cut_ms
        answered, failures, counted = False, 0, False
        for began, has_answered, has_failed in zip(ends.began_ms, ends.answered, ends.failed, strict=True):
            if began > since_ms:
                counted = True
                answered, failures = (True, 0) if has_answered else (answered, failures + has_failed)
        if counted:
            self.probe = None
        closed = answered and breaker.answered(now_ms)
        opened = bool(failures) and breaker.failed(failures, now_ms, fraction)
        if ends.retry_after_ms is not None:
            opened = opened or breaker.closed
            breaker.asked_to_wait(ends.retry_after_ms, now_ms)
        if breaker.closed:
            took = [
                now_ms - began
                for began, good in zip(ends.began_ms, ends.good, strict=True)
                if good and began > cut_ms
            ]
            pushed = sum(
                pushed for began, pushed in zip(ends.began_ms, ends.pushed, strict=True) if began > cut_ms
            )
            self.aimd.observe(took, pushed, full=self._is_full(), now_ms=now_ms)
        if opened and was_closed:
            self.aimd.collapse(now_ms)
            return Change(opened=True, closed=False)
        if closed and breaker.closed:
            return self._closed()
        return None

    def why(self, now_ms: int) -> str:
        """Why its runs wait, in one word."""
        if not self.breaker.closed:
            return "retry_after" if self.breaker.cause is Cause.RETRY_AFTER else "failing"
        if self.rate is not None and not self.rate.available(now_ms):
            return "rate"
        return "full" if self.aimd.at_ceiling else "slowed"

    def next_look_ms(self, now_ms: int, relook_ms: int, probe_relook_ms: int) -> int:
        """When time alone may have made room for what waits."""
        state = self.breaker.look(now_ms)
        if state is BreakerState.OPEN:
            return self.breaker.until_ms
        if state is BreakerState.HALF_OPEN:
            return now_ms + probe_relook_ms
        return self.rate.next_ms(now_ms + 1) if self.rate is not None else now_ms + relook_ms

    def _closed(self) -> Change:
        self.probe = None
        return Change(opened=False, closed=True)

    def _is_full(self) -> bool:
        return self.used >= self.aimd.limit or bool(len(self.waiting))

    def _ahead(self, now_ms: int) -> int:
        self._turn_page(now_ms)
        return min(max(self.ended_now, self.ended_before), AHEAD_FACTOR * self.limit)

    def _turn_page(self, now_ms: int) -> None:
        pace = now_ms // PACE_MS
        if pace != self.pace:
            self.ended_before = self.ended_now if pace == self.pace + 1 else 0
            self.ended_now, self.pace = 0, pace
