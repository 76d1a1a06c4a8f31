"""A parsed expression in its zone: the value that the rest of the product holds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from tickwheel.domain.cron.compiler import compile_rule
from tickwheel.domain.cron.errors import CronError
from tickwheel.domain.cron.expression import quartz_warnings, split_expression
from tickwheel.domain.cron.fields import HOUR
from tickwheel.domain.cron.rule import Rule
from tickwheel.domain.cron.search import instants, next_instant
from tickwheel.domain.timeline import Timeline, timeline_of
from tickwheel.domain.zones import UnknownZoneError

_LONGEST_GAP_HOURS = 3


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """When a cron job is due. Made by `parse_cron` only; equal when expression and zone are the same text.

    All times are UTC epoch milliseconds and every occurrence is a whole second.
    """

    expression: str
    timezone: str
    warnings: tuple[str, ...] = field(compare=False)
    rule: Rule = field(compare=False, repr=False)
    timeline: Timeline = field(compare=False, repr=False)

    def next_after(self, after_ms: int) -> int | None:
        """The first occurrence strictly after `after_ms`; None when there's none until the year 9999."""
        found = next_instant(self.rule, self.timeline, after_ms // 1000)
        return None if found is None else found * 1000

    def iter_after(self, after_ms: int) -> Iterator[int]:
        """All occurrences strictly after `after_ms`, strictly ascending, practically without end."""
        return (found * 1000 for found in instants(self.rule, self.timeline, after_ms // 1000))

    def count_between(self, after_ms: int, until_ms: int, limit: int) -> int:
        """How many occurrences lie in `(after_ms, until_ms]`, counting no further than `limit`."""
        count = 0
        for due in islice(self.iter_after(after_ms), limit):
            if due > until_ms:
                break
            count += 1
        return count


@lru_cache(maxsize=4096)
def parse_cron(expression: str, timezone: str = "UTC") -> CronSchedule:
    """The schedule of `expression` on the wall clock of `timezone`, an IANA name.

    Raises CronError for anything that isn't in the dialect, that never fires, and for an unknown zone.
    """
    warnings: list[str] = []
    fields = split_expression(expression)
    rule = compile_rule(fields, warnings)
    warnings.extend(quartz_warnings(expression, fields))
    try:
        timeline = timeline_of(timezone)
    except UnknownZoneError as error:
        raise CronError(str(error), "timezone") from error
    _reject_gap_only(rule, timeline, fields[2])
    return CronSchedule(expression, timezone, tuple(warnings), rule, timeline)


def _reject_gap_only(rule: Rule, timeline: Timeline, hour: str) -> None:
    """A job every so often, whose few hours fall on the day of the spring change only, into the hour left out."""
    may_vanish = not rule.fixed and not rule.calendar.every_day
    if not may_vanish or not timeline.seasonal or rule.times.hours.bit_count() > _LONGEST_GAP_HOURS:
        return
    if next_instant(rule, timeline, timeline.regular_from) is None:
        raise CronError(
            f"hour: {hour!a} never fires in {timeline.name} on these days: the clock is put forward over it; "
            f"allowed: {HOUR.allowed}, outside the hour that is left out",
            HOUR.name,
        )
