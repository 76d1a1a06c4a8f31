"""The day-of-month field: plain days plus `L`, `LW`, `L-n` and `nW`.

A month is all but its name here: its length (28-31) and the weekday of its first day (0 = Sunday). Results are
masks with bit d - 1 for day d.
"""

from dataclasses import dataclass

from tickwheel.domain.cron.fields import DAY_OF_MONTH, items_of, plain_item

EVERY_DAY = (1 << 31) - 1
_SUNDAY, _SATURDAY = 0, 6


@dataclass(frozen=True, slots=True)
class DaysOfMonth:
    """`plain`: days that need no month. `before_last`: n of each `L-n` (`L` = 0). `nearest`: n of each `nW`."""

    plain: int
    before_last: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()
    last_weekday: bool = False

    @property
    def special(self) -> bool:
        """Whether the days depend on the month at hand beyond its length."""
        return bool(self.before_last or self.nearest or self.last_weekday)

    def mask(self, length: int, first_weekday: int) -> int:
        """The matching days of a month."""
        mask = self.plain & ((1 << length) - 1)
        if self.special:
            for back in self.before_last:
                mask |= 1 << (length - 1 - back) if back < length else 0
            for day in self.nearest:
                mask |= 1 << (_nearest_weekday(day, length, first_weekday) - 1) if day <= length else 0
            if self.last_weekday:
                mask |= 1 << (_nearest_weekday(length, length, first_weekday) - 1)
        return mask


def parse_days_of_month(text: str, warnings: list[str]) -> DaysOfMonth:
    """The day-of-month field without `?`; appends to `warnings`. Raises CronError."""
    plain = 0
    before_last: list[int] = []
    nearest: list[int] = []
    last_weekday = False
    for item in items_of(DAY_OF_MONTH, text):
        word = item.upper()
        if word == "L":
            before_last.append(0)
        elif word == "LW":
            last_weekday = True
        elif word.startswith("L-"):
            before_last.append(_days_back(item))
        elif word.endswith("W") and item[:-1].isdigit():
            nearest.append(_target_day(item))
        else:
            plain |= plain_item(DAY_OF_MONTH, item, warnings) >> 1
    return DaysOfMonth(plain, tuple(before_last), tuple(nearest), last_weekday)


def _days_back(item: str) -> int:
    digits = item[2:]
    if not digits.isdigit() or not 1 <= int(digits) <= 30:
        DAY_OF_MONTH.reject(
            item, "does not name a day before the last", "write L-1 to L-30, or L for the last day"
        )
    return int(digits)


def _target_day(item: str) -> int:
    day = int(item[:-1])
    if not 1 <= day <= 31:
        DAY_OF_MONTH.reject(item, "is out of range", "write 1W to 31W")
    return day


def _nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    """The Monday-to-Friday day closest to `day` within the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day
