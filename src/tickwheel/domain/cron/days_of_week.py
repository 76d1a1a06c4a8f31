"""The day-of-week field: plain weekdays plus `nL` (last one of the month) and `n#k` (k-th one of the month).

Weekdays are 0 = Sunday to 6 = Saturday after parsing; 7 is read as 0. Masks of days have bit d - 1 for day d.
"""

from dataclasses import dataclass

from tickwheel.domain.cron.fields import DAY_OF_WEEK, items_of, number, plain_item

EVERY_WEEKDAY = 0b111_1111
_SIX_WEEKS = sum(1 << (7 * week) for week in range(6))


@dataclass(frozen=True, slots=True)
class DaysOfWeek:
    """`plain`: mask of weekdays. `last`: weekdays of each `nL`. `nth`: `(weekday, k)` of each `n#k`."""

    plain: int
    last: tuple[int, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()

    def mask(self, length: int, first_weekday: int) -> int:
        """The matching days of a month of `length` days that begins on `first_weekday`."""
        mask = (self.plain * _SIX_WEEKS) >> first_weekday
        for weekday in self.last:
            last_weekday = (first_weekday + length - 1) % 7
            mask |= 1 << (length - 1 - (last_weekday - weekday) % 7)
        for weekday, count in self.nth:
            mask |= 1 << ((weekday - first_weekday) % 7 + 7 * (count - 1))
        return mask & ((1 << length) - 1)


def parse_days_of_week(text: str, warnings: list[str]) -> DaysOfWeek:
    """The day-of-week field without `?`; appends to `warnings`. Raises CronError."""
    plain = 0
    last: list[int] = []
    nth: list[tuple[int, int]] = []
    for item in items_of(DAY_OF_WEEK, text):
        if "#" in item:
            nth.append(_nth(item))
        elif item.upper().endswith("L"):
            last.append(_last(item))
        else:
            plain |= plain_item(DAY_OF_WEEK, item, warnings)
    return DaysOfWeek((plain | plain >> 7) & EVERY_WEEKDAY, tuple(last), tuple(nth))


def _nth(item: str) -> tuple[int, int]:
    day, _, count = item.partition("#")
    if not count.isdigit() or not 1 <= int(count) <= 5:
        DAY_OF_WEEK.reject(item, "does not count 1 to 5 after the '#'")
    return _single(day, item), int(count)


def _last(item: str) -> int:
    day = item[:-1]
    if not day:
        DAY_OF_WEEK.reject(item, "names no day before the L", "write SATL for the last Saturday of the month")
    return _single(day, item)


def _single(day: str, item: str) -> int:
    if any(mark in day for mark in "-/*"):
        DAY_OF_WEEK.reject(
            item, "has more than one day before the L or '#'", "list them: MON#2,TUE#2 or MONL,TUEL"
        )
    return number(DAY_OF_WEEK, day, item) % 7
