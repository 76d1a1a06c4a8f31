"""The grammar of one field: lists of values, ranges and steps become a bit mask (bit n = value n matches).

Used as it stands for second, minute, hour and month; the two day fields add their own words on top of it
(`days_of_month.py`, `days_of_week.py`). Texts are ASCII here (`expression.py` sees to it), so `isdigit` means 0-9.
"""

from dataclasses import dataclass, field
from typing import NoReturn

from tickwheel.domain.cron.errors import CronError

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class FieldKind:
    """What one of the six fields is called and takes; `allowed` is what error messages offer."""

    name: str
    low: int
    high: int
    allowed: str
    names: dict[str, int] = field(default_factory=dict)

    def reject(self, token: str, problem: str, remedy: str = "") -> NoReturn:
        """Raises the CronError for `token`; never returns."""
        tail = f"; {remedy}" if remedy else ""
        raise CronError(f"{self.name}: {token!a} {problem}; allowed: {self.allowed}{tail}", self.name)


SECOND = FieldKind("second", 0, 59, "0-59, *")
MINUTE = FieldKind("minute", 0, 59, "0-59, *")
HOUR = FieldKind("hour", 0, 23, "0-23, *")
DAY_OF_MONTH = FieldKind("day-of-month", 1, 31, "1-31, *, ?, L, LW, L-1 to L-30, 1W to 31W")
MONTH = FieldKind("month", 1, 12, "1-12 or JAN-DEC, *", {name: n for n, name in enumerate(MONTH_NAMES, 1)})
DAY_OF_WEEK = FieldKind(
    "day-of-week",
    0,
    7,
    "0-7 (0 and 7 = Sunday) or SUN-SAT, *, ?, last one as 5L or FRIL, n-th one as 5#1 to 5#5 or FRI#1 to FRI#5",
    {name: n for n, name in enumerate(DAY_NAMES)},
)
KINDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


def items_of(kind: FieldKind, text: str) -> list[str]:
    """The comma-separated items of a field as they were written; rejects empty ones."""
    items = text.split(",")
    if "" in items:
        kind.reject(text, "has an empty list item", "remove the extra comma")
    return items


def plain_field(kind: FieldKind, text: str, warnings: list[str]) -> int:
    """The mask of a field without day words; appends to `warnings`. Raises CronError."""
    mask = 0
    for item in items_of(kind, text):
        mask |= plain_item(kind, item, warnings)
    return mask


def plain_item(kind: FieldKind, item: str, warnings: list[str]) -> int:
    """The mask of `*`, `a`, `a-b`, each with or without `/n`. Raises CronError."""
    if item == "*":
        return _stepped(kind.low, kind.high, 1)
    if item.isdigit():
        return 1 << number(kind, item, item)
    base, slash, step_text = item.partition("/")
    low, high = _bounds(kind, item, base, open_ended=bool(slash))
    if not slash:
        return _stepped(low, high, 1)
    if not step_text.isdigit():
        kind.reject(item, "has no whole number after the '/'")
    step = int(step_text)
    if step == 0:
        kind.reject(item, "has step 0", "a step is 1 or more")
    mask = _stepped(low, high, step)
    if step > 1 and _days_once(kind, mask).bit_count() == 1:
        warnings.append(
            f"{kind.name}: the step of {item!a} reaches past {low}-{high}, so it matches one value only"
        )
    return mask


def number(kind: FieldKind, token: str, item: str) -> int:
    """The value of a number or name; `item` is the list item it stands in. Raises CronError."""
    if token.isdigit():
        value = int(token)
        if not kind.low <= value <= kind.high:
            kind.reject(item, "is out of range")
        return value
    named = kind.names.get(token.upper())
    if named is None:
        kind.reject(item, *_diagnosis(kind, token.upper()))
    return named


def _bounds(kind: FieldKind, item: str, base: str, *, open_ended: bool) -> tuple[int, int]:
    if base == "*":
        return kind.low, kind.high
    first, dash, last = base.partition("-")
    low = number(kind, first, item)
    if not dash:
        return low, (kind.high if open_ended else low)
    high = number(kind, last, item)
    if kind is DAY_OF_WEEK and high == 0 and low > 0:
        high = 7  # FRI-SUN and 6-0 run through Sunday, as in cronie
    if high < low:
        kind.reject(item, "is a reversed range", f"for a wrap write {first}-{kind.high},{kind.low}-{last}")
    return low, high


def _stepped(low: int, high: int, step: int) -> int:
    if step == 1:
        return (2 << high) - (1 << low)
    return sum(1 << value for value in range(low, high + 1, step))


def _days_once(kind: FieldKind, mask: int) -> int:
    return (mask | mask >> 7) & 0b111_1111 if kind is DAY_OF_WEEK else mask


def _diagnosis(kind: FieldKind, token: str) -> tuple[str, str]:
    """What is wrong with a token that is neither a number nor a name of `kind`, and the remedy."""
    for other in (MONTH, DAY_OF_WEEK):
        if other is not kind and token in other.names:
            return f"is a {other.name} name", f"it belongs in the {other.name} field"
    if not token:
        return "lacks a value", ""
    if "?" in token:
        return "has a '?', which only stands alone and in a day field", ""
    if token in ("H", "R") or "~" in token or (token[0] in "HR" and "(" in token):
        return "is a hashed or random value, which is not supported", "write a fixed value"
    if "*" in token:
        return "has a '*', which only stands alone or before '/n'", ""
    if "#" in token:
        return "has a '#', which belongs in day-of-week, after a single day", "write MON#2 for the second Monday"
    if token in ("L", "W", "LW", "WL") or token.rstrip("LW").isdigit() or token.startswith("L-"):
        remedy = "L, LW, L-n and nW alone are days of the month, nL is a day of the week"
        return "has an L or W that does not belong here", remedy
    if token[:3] in kind.names:
        return "is not a three-letter name", f"write {token[:3]}"
    return "is not a plain number" + (" or name" if kind.names else ""), ""
