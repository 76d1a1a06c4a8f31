"""Day-of-month, month and day-of-week fields together: which dates match.

A day is its number since 1970-01-01 (a Thursday). The search goes month by month, skipping months that don't
match, and asks for each only its mask of matching days, so a date that comes round every 40 years is found in
well under a millisecond.
"""

from dataclasses import dataclass, field
from datetime import date

from tickwheel.domain.cron.days_of_month import EVERY_DAY, DaysOfMonth
from tickwheel.domain.cron.days_of_week import EVERY_WEEKDAY, DaysOfWeek
from tickwheel.domain.cron.times_of_day import lowest_bit

EVERY_MONTH = (1 << 13) - 2
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Calendar:
    """`months`: mask with bit m for month m. `both`: a day must match both day fields (AND), else either (OR)."""

    days_of_month: DaysOfMonth
    months: int
    days_of_week: DaysOfWeek
    both: bool
    every_day: bool = field(init=False)
    """Whether each date matches, which spares the search by month."""

    def __post_init__(self) -> None:
        all_days = self.days_of_month.plain == EVERY_DAY
        all_weekdays = self.days_of_week.plain == EVERY_WEEKDAY
        matched = all_days and all_weekdays if self.both else all_days or all_weekdays
        object.__setattr__(self, "every_day", matched and self.months == EVERY_MONTH)

    def month_mask(self, length: int, first_weekday: int) -> int:
        """The matching days (bit d - 1) of a month by its length and the weekday of its first day (0 = Sunday)."""
        by_month = self.days_of_month.mask(length, first_weekday)
        by_week = self.days_of_week.mask(length, first_weekday)
        return by_month & by_week if self.both else by_month | by_week

    def ever_matches(self) -> bool:
        """Whether any date in history matches: every weekday begins every kind of month at some time."""
        for month in range(1, 13):
            if self.months >> month & 1:
                for length in (28, 29) if month == 2 else (_LENGTHS[month],):
                    for first_weekday in range(7):
                        if self.month_mask(length, first_weekday):
                            return True
        return False

    def next_day(self, day: int, last_day: int) -> int | None:
        """The earliest matching day in `day ... last_day`, or None."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = start.year, start.month
        first = day - start.day + 1
        not_before = start.day - 1
        while first <= last_day:
            length = 29 if month == 2 and _is_leap(year) else _LENGTHS[month]
            if self.months >> month & 1:
                mask = self.month_mask(length, (first + 4) % 7) >> not_before << not_before
                if mask:
                    found = first + lowest_bit(mask)
                    return found if found <= last_day else None
            first += length
            not_before = 0
            month += 1
            if month == 13:
                year, month = year + 1, 1
        return None


def longest_month(months: int) -> int:
    """The most days that any month in the mask can have."""
    return max(29 if month == 2 else _LENGTHS[month] for month in range(1, 13) if months >> month & 1)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
