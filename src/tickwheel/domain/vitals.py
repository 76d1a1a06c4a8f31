"""How a node does, in few numbers: what it started and ended in the last minute, how late, and what waits.

Travels with a node's beats, so it is short. Times are integers of milliseconds.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from operator import add
from typing import Final

import msgspec

from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.waits import Wait, longest, main_wait, wait_text

SECOND_COUNT: Final = 60
LATE_MS: Final = 1_000
"""Lateness above which a run was late: the promise is that 99 of 100 begin within it."""
MANY: Final = 100
"""Of fewer runs nobody can say what 1 in 100 is."""


class LaneVitals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One lane in the last minute. The lateness of 50 and 99 in 100 starts, and the greatest of all."""

    started: int = 0
    p50_ms: int = 0
    p99_ms: int = 0
    max_ms: int = 0
    backlog: int = 0  # due now, and waiting for a slot
    oldest_due_ms: int = 0  # instant of the oldest of these; 0 = nothing waits


class Vitals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A whole node. `succeeded`, `failed` and `dead` are attempts of the last minute, and runs that gave up.

    `starts` and `failures` are told by whole second, the latest one last; empty: none in the whole minute.
    """

    lanes: tuple[LaneVitals, ...] = (LaneVitals(),) * LANE_COUNT
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    in_flight: int = 0
    armed: int = 0  # timers in the wheel
    held: int = 0  # due, and waiting for their target, a limit or their tenant
    held_due_ms: int = 0  # instant of the oldest of these, or of `elsewhere`; 0 = nothing waits
    elsewhere: int = 0  # due, and waiting for workers elsewhere
    waits: tuple[Wait, ...] = ()  # what holds runs now, or held them in the last minute
    starts: tuple[int, ...] = ()
    failures: tuple[int, ...] = ()

    @property
    def started(self) -> int:
        """Attempts begun in the last minute."""
        return sum(lane.started for lane in self.lanes)

    @property
    def backlog(self) -> int:
        """Due, and waiting for a slot."""
        return sum(lane.backlog for lane in self.lanes)

    @property
    def due(self) -> int:
        """Due, and waiting for anything."""
        return self.backlog + self.held + self.elsewhere

    @property
    def oldest_due_ms(self) -> int:
        """Instant of the oldest due timer that waits for anything; 0 = none does."""
        known = (self.held_due_ms, *(lane.oldest_due_ms for lane in self.lanes))
        return min((due_ms for due_ms in known if due_ms), default=0)


def sum_vitals(nodes: Iterable[Vitals]) -> Vitals:
    """All nodes as one: counts add up, lateness is that of the slowest node.

    What came with a beat is a second old or two, so seconds of several nodes match to within that.
    """
    total = Vitals()
    for node in nodes:
        lanes = tuple(_both(a, b) for a, b in zip(total.lanes, node.lanes[:LANE_COUNT], strict=False))
        total = Vitals(
            lanes + total.lanes[len(lanes) :],
            total.succeeded + node.succeeded,
            total.failed + node.failed,
            total.dead + node.dead,
            total.in_flight + node.in_flight,
            total.armed + node.armed,
            total.held + node.held,
            _older(total.held_due_ms, node.held_due_ms),
            total.elsewhere + node.elsewhere,
            longest((*total.waits, *node.waits)),
            _by_second(total.starts, node.starts[-SECOND_COUNT:]),
            _by_second(total.failures, node.failures[-SECOND_COUNT:]),
        )
    return total


def _by_second(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    shorter, longer = sorted((a, b), key=len)
    older_count = len(longer) - len(shorter)
    return longer[:older_count] + tuple(map(add, longer[older_count:], shorter))


def _both(a: LaneVitals, b: LaneVitals) -> LaneVitals:
    return LaneVitals(
        a.started + b.started,
        max(a.p50_ms, b.p50_ms),
        max(a.p99_ms, b.p99_ms),
        max(a.max_ms, b.max_ms),
        a.backlog + b.backlog,
        _older(a.oldest_due_ms, b.oldest_due_ms),
    )


def _older(a_ms: int, b_ms: int) -> int:
    return min((one for one in (a_ms, b_ms) if one), default=0)


class Standing(StrEnum):
    """Whether the installation is on time, in one word."""

    IDLE = "idle"
    ON_TIME = "on_time"
    LATE = "late"


def standing(vitals: Vitals, now_ms: int) -> tuple[Standing, str]:
    """The word, and a sentence that says why. What waits now counts more than what was late."""
    waited_ms = now_ms - vitals.oldest_due_ms if vitals.oldest_due_ms else 0
    if waited_ms > LATE_MS:
        held = [wait for wait in vitals.waits if wait.goes_on(now_ms)]
        why = _why(held, waited_ms, "It waits")
        what = " for a slot" if not why and vitals.due == vitals.backlog else ""
        return Standing.LATE, f"Late: {waiting_text(vitals, now_ms, what)}.{why}"
    place, worst = max(enumerate(vitals.lanes), key=lambda one: one[1].p99_ms, default=(0, LaneVitals()))
    if worst.p99_ms > LATE_MS:
        why = _why(vitals.waits, worst.p99_ms, "It waited" if worst.started < MANY else "They waited")
        return Standing.LATE, f"Late: {_slow_text(vitals, worst, Lane(place))}{why}"
    if vitals.started:
        return Standing.ON_TIME, f"On time: {_on_time_text(vitals, worst)}"
    return Standing.IDLE, "Nothing was due in the last minute, and nothing waits."


def _slow_text(vitals: Vitals, worst: LaneVitals, lane: Lane) -> str:
    of = "of the last minute" if worst.started == vitals.started else f"of the lane {lane.name} in the last minute"
    if worst.started < MANY:
        slowest = f"the slowest of the {worst.started} runs" if worst.started > 1 else "the run"
        return f"{slowest} {of} began {seconds_text(worst.max_ms)} after it was due."
    slow = seconds_text(worst.p99_ms)
    return f"of the {worst.started:,} runs {of} 1 in 100 began {slow} or more after they were due."


def _on_time_text(vitals: Vitals, worst: LaneVitals) -> str:
    if vitals.started == 1:
        return f"1 run began in the last minute, within {worst.max_ms} ms."
    runs = f"{vitals.started:,} runs began in the last minute"
    if vitals.started < MANY:
        return f"{runs}, all within {max(lane.max_ms for lane in vitals.lanes)} ms."
    return f"{runs}, 99 of 100 within {worst.p99_ms} ms."


def _why(waits: Sequence[Wait], length_ms: int, who: str) -> str:
    wait = main_wait(waits, length_ms)
    return "" if wait is None else f" {who} for {wait_text(wait)}."


def waiting_text(vitals: Vitals, now_ms: int, what: str = "") -> str:
    """`7 due runs wait for a slot, the oldest for 34.0 s`; nothing if none does."""
    count = vitals.due
    if not count:
        return ""
    oldest = f", the oldest for {seconds_text(now_ms - vitals.oldest_due_ms)}" if vitals.oldest_due_ms else ""
    return f"{count:,} due {'runs wait' if count != 1 else 'run waits'}{what}{oldest}"


def seconds_text(length_ms: int) -> str:
    """`1.4 s`, `3 min 20 s`, `2 h 5 min`."""
    if length_ms < 60_000:
        return f"{length_ms / 1000:.1f} s"
    minutes, seconds = divmod(length_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
