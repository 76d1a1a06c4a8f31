"""The next instant of a rule in a zone: the Debian rule, worked out period by period.

Inside a period of constant offset, wall clock and UTC run in parallel, so a matching wall second is a matching
instant. Where two periods meet:

* A job that runs every so often (second, minute or hour begins with `*`) fires at every instant whose wall clock
  matches: never inside a gap, in both passes of an overlap. Nothing special has to be done.
* A job at fixed times follows the *high-water mark* of the wall clock, as Debian's cron does with its virtual
  clock. It fires when the mark reaches a matching second. In an overlap the mark stands still, so the second pass
  is silent. At a gap the mark leaps: if anything that matches lies in what it leaps over, the job fires once, at
  the first instant after the gap. A jump of three hours or more is a correction (a date line crossed, a day left
  out) and nothing is made up for it.

Example: `30 2 * * *` in Europe/Berlin fires on 2026-03-29 at 01:00Z (03:00 on the wall, 02:30 never came) and on
2026-10-25 at 00:30Z (02:30 in summer time), not again at 01:30Z.

The failure that this survives: schedulers that add a day to a local time, or that search in local time, return an
instant in the past from inside the repeated hour and loop there. Here the search moves through UTC instants only.
"""

from collections.abc import Iterator

from tickwheel.domain.cron.rule import Rule
from tickwheel.domain.timeline import MAX_S, MIN_S, Period, Timeline

LARGE_JUMP_S = 3 * 3600
_SEARCH_S = 80 * 366 * 86_400


def instants(rule: Rule, timeline: Timeline, after_s: int) -> Iterator[int]:
    """The UTC seconds > `after_s` at which the rule fires, strictly ascending, until the year 9999.

    Ends early only when nothing fires any more: where the zone's clock changes by one rule, all that happens in a
    year follows from its first weekday and whether it's a leap year, and a search covers 80 such years, twice what
    it takes to meet all fourteen kinds.
    """
    begin = max(after_s + 1, MIN_S)
    give_up = max(begin, timeline.regular_from) + _SEARCH_S
    while begin <= min(MAX_S, give_up):
        moved = timeline.fold_back(begin)
        period = timeline.period(timeline.index_at(begin - moved))
        for found in _within(rule, period, begin - moved, min(period.end, MAX_S - moved + 1)):
            yield found + moved
            give_up = MAX_S
        begin = period.end + moved


def next_instant(rule: Rule, timeline: Timeline, after_s: int) -> int | None:
    """The first UTC second > `after_s` at which the rule fires, or None when it never does again."""
    return next(instants(rule, timeline, after_s), None)


def missed_in_gap(rule: Rule, period: Period) -> int | None:
    """The first matching wall second that the clock leapt over at the start of `period`, or None."""
    return rule.next_wall(period.high, period.start + period.offset) if period.jump > 0 else None


def makes_up(rule: Rule, period: Period) -> bool:
    """Whether the rule fires at the very start of `period` for what was due in the gap before it."""
    return rule.fixed and period.jump < LARGE_JUMP_S and missed_in_gap(rule, period) is not None


def _within(rule: Rule, period: Period, begin: int, end: int) -> Iterator[int]:
    """All firings in `[begin, end)`, a part of `period`."""
    wall = begin + period.offset
    if begin == period.start and makes_up(rule, period):
        yield begin
        wall += 1  # what is due at this very moment has run with it
    if rule.fixed and wall < period.high:
        wall = period.high
    limit = end + period.offset
    found = rule.next_wall(wall, limit)
    while found is not None:
        yield found - period.offset
        found = rule.next_wall(found + 1, limit)
