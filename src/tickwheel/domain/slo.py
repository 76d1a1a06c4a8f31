"""Objectives of lateness, their error budgets, and how fast these burn.

An objective says which share of starts must begin within a bound after they are due. What may be late is the error
budget: of 99.9 % one in a thousand. The burn rate of a window is its late share divided by what may be late: at 1
the budget is gone just when the 30 days are over, at 14.4 a fiftieth of it goes in an hour.

An alert looks at a long window, so that it is about something, and at a short one as well, so that it ends soon
after the trouble does. (The windows and factors are those of Google's Site Reliability Workbook, chapter 5.)

Few starts say little: one late start of one is a burn rate of 1,000. So no rule is met by fewer than `LATE_LEAST`
late starts, nor before its short window was watched from end to end; and what of a window lies before the watch
began counts as calm. Example: five minutes after a restart, 30 % late at 99.9 % is a burn rate of 300 in 5 minutes
and of 300 * 5 / 60 = 25 in the hour.

Example: 99.9 % of 10,000 starts leave room for 10 late ones. With 4 late so far, 60 % of the budget are left.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tickwheel.domain.lane import Lane
from tickwheel.domain.limits import TENANT_CHARS

PARTS: Final = 1_000_000
PERIOD_MS: Final = 30 * 86_400_000
LONGEST_BOUND_MS: Final = 86_400_000
OBJECTIVES_MOST: Final = 100
LATE_LEAST: Final = 10
"""So many late starts in its long window make an alert; fewer may be chance."""
TENANT_PREFIX: Final = "tenant:"
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": _MINUTE_MS, "h": _HOUR_MS}
_PROMISE: Final = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,4}))?%@([1-9][0-9]{0,7})(ms|s|m|h)")
_EXAMPLE: Final = "DEFAULT=99.9%@1s"


class Window(IntEnum):
    """A span to look back, in milliseconds."""

    FIVE_MINUTES = 5 * _MINUTE_MS
    HALF_HOUR = 30 * _MINUTE_MS
    HOUR = _HOUR_MS
    SIX_HOURS = 6 * _HOUR_MS
    THREE_DAYS = 72 * _HOUR_MS
    PERIOD = PERIOD_MS

    @property
    def label(self) -> str:
        """As in queries: 5m, 1h, 3d."""
        minutes = self.value // _MINUTE_MS
        if minutes % 1_440 == 0:
            return f"{minutes // 1_440}d"
        return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


class Rule(NamedTuple):
    """Burning that fast in both windows calls for somebody: `page` now, else in working hours."""

    name: str
    long: Window
    short: Window
    burn_tenths: int
    page: bool


RULES: Final = (
    Rule("fast", Window.HOUR, Window.FIVE_MINUTES, 144, page=True),
    Rule("medium", Window.SIX_HOURS, Window.HALF_HOUR, 60, page=True),
    Rule("slow", Window.THREE_DAYS, Window.SIX_HOURS, 10, page=False),
)


class Objective(NamedTuple):
    """`target_ppm` of a million starts begin within `bound_ms`. Lane or tenant None: all of them."""

    target_ppm: int
    bound_ms: int
    lane: Lane | None = None
    tenant_id: str | None = None

    @property
    def name(self) -> str:
        """Such as HIGH, tenant:acme or HIGH/tenant:acme."""
        parts = [] if self.lane is None else [self.lane.name]
        return "/".join(parts if self.tenant_id is None else [*parts, f"{TENANT_PREFIX}{self.tenant_id}"])


class Counted(NamedTuple):
    """Starts of a window, and how many of them were late."""

    starts: int
    late: int


def parse_objective(text: str) -> Objective:
    """`HIGH=99.9%@500ms`, `tenant:acme=99%@2s`, `LOW/tenant:acme=95%@5m`. Raises ValueError with the remedy."""
    name, _, promise = text.rpartition("=")
    match = _PROMISE.fullmatch(promise)
    if match is None:
        raise ValueError(f"{text!r} must look like {_EXAMPLE}")
    target_ppm = int(match[1]) * 10_000 + int((match[2] or "").ljust(4, "0"))
    bound_ms = int(match[3]) * _UNITS_MS[match[4]]
    if target_ppm < PARTS // 2:
        raise ValueError(f"{text!r} promises less than 50%, which is no objective")
    if bound_ms > LONGEST_BOUND_MS:
        raise ValueError(f"{text!r} allows more than a day")
    lane, tenant_id = _parts_of(name)
    return Objective(target_ppm, bound_ms, lane, tenant_id)


def _parts_of(name: str) -> tuple[Lane | None, str | None]:
    lane_text, slash, tenant_text = ("", "", name) if name.startswith(TENANT_PREFIX) else name.partition("/")
    if slash and not tenant_text.startswith(TENANT_PREFIX):
        raise ValueError(f"{name!r} must be a lane, tenant:NAME or LANE/tenant:NAME")
    if lane_text and lane_text not in Lane.__members__:
        raise ValueError(f"{lane_text!r} is no lane; there are {', '.join(Lane.__members__)}")
    if not lane_text and not tenant_text:
        raise ValueError(f"an objective names a lane or a tenant, as in {_EXAMPLE}")
    tenant_id = tenant_text.removeprefix(TENANT_PREFIX)
    if tenant_text and not 0 < len(tenant_id) <= TENANT_CHARS:
        raise ValueError(f"{name!r} names no tenant")
    return Lane[lane_text] if lane_text else None, tenant_id or None


def parse_objectives(texts: Sequence[str]) -> list[Objective]:
    """All of them, each for something else. Raises ValueError."""
    found = {}
    for text in texts:
        objective = parse_objective(text)
        if objective.name in found:
            raise ValueError(f"{objective.name} has two objectives")
        found[objective.name] = objective
    if len(found) > OBJECTIVES_MOST:
        raise ValueError(f"{len(found)} objectives are more than {OBJECTIVES_MOST}: each has series of its own")
    return list(found.values())


def check_names(tenants: Sequence[str]) -> None:
    """Tenants with series of their own. Raises ValueError."""
    if len(tenants) > OBJECTIVES_MOST:
        raise ValueError(f"{len(tenants)} tenants are more than {OBJECTIVES_MOST}: each has series of its own")
    for tenant_id in tenants:
        if len(tenant_id) > TENANT_CHARS:
            raise ValueError(f"{tenant_id[:20]!r}… names no tenant")
        if tenants.count(tenant_id) > 1:
            raise ValueError(f"{tenant_id!r} is there twice")


def burn_rate(counted: Counted, target_ppm: int) -> float:
    """How many times faster than allowed the budget is used up; 0 without any start."""
    if not counted.starts:
        return 0.0
    return counted.late * PARTS / (counted.starts * (PARTS - target_ppm))


def watched_rate(counted: Counted, target_ppm: int, window: Window, watched_ms: int) -> float:
    """The burn rate of a window of which only so much was watched: the rest counts as just as busy, and calm."""
    return burn_rate(counted, target_ppm) * min(watched_ms, window) / window


def budget_left(counted: Counted, target_ppm: int) -> float:
    """Of the starts of the period so far; 1 = all, below 0 = overdrawn."""
    return 1.0 - burn_rate(counted, target_ppm)


def alarming(rates: Mapping[Window, float], late: Mapping[Window, int], watched_ms: int) -> Rule | None:
    """The most urgent rule that is met by these burn rates and numbers of late starts."""
    for rule in RULES:
        if watched_ms < rule.short or late[rule.long] < LATE_LEAST:
            continue
        if min(rates[rule.long], rates[rule.short]) * 10 >= rule.burn_tenths:
            return rule
    return None


class Tally:
    """Starts and late ones of the last 30 days, in two rings: minutes for what is short, hours for what is long.

    Times are monotonic ms. A window counts the bucket that is under way and whole ones before it, so it is up to a
    minute (or an hour) shorter than it says.
    """

    __slots__ = ("_hours", "_minutes")

    def __init__(self, now_ms: int) -> None:
        self._minutes = _Ring(_MINUTE_MS, Window.SIX_HOURS // _MINUTE_MS, now_ms)
        self._hours = _Ring(_HOUR_MS, PERIOD_MS // _HOUR_MS, now_ms)

    def note(self, counted: Counted, now_ms: int) -> None:
        """These started just now."""
        self._minutes.note(counted, now_ms)
        self._hours.note(counted, now_ms)

    def over(self, window: Window, now_ms: int) -> Counted:
        """Those of the last so many milliseconds."""
        ring = self._minutes if window <= Window.SIX_HOURS else self._hours
        return ring.over(window // ring.bucket_ms, now_ms)


class _Ring:
    __slots__ = ("_at", "_late", "_starts", "bucket_ms")

    def __init__(self, bucket_ms: int, count: int, now_ms: int) -> None:
        self.bucket_ms = bucket_ms
        self._starts, self._late = [0] * count, [0] * count
        self._at = now_ms // bucket_ms

    def note(self, counted: Counted, now_ms: int) -> None:
        place = self._turn(now_ms) % len(self._starts)
        self._starts[place] += counted.starts
        self._late[place] += counted.late

    def over(self, bucket_count: int, now_ms: int) -> Counted:
        at, size = self._turn(now_ms), len(self._starts)
        places = [(at - back) % size for back in range(min(bucket_count, size))]
        return Counted(sum(self._starts[place] for place in places), sum(self._late[place] for place in places))

    def _turn(self, now_ms: int) -> int:
        at = now_ms // self.bucket_ms
        if at <= self._at:
            return self._at
        for passed in range(self._at + 1, min(at, self._at + len(self._starts)) + 1):
            self._starts[passed % len(self._starts)] = self._late[passed % len(self._starts)] = 0
        self._at = at
        return at
