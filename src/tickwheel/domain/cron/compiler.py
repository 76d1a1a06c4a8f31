"""From six field texts to a `Rule`, its warnings, and the rejection of dates that never come."""

from tickwheel.domain.cron.calendar import Calendar, longest_month
from tickwheel.domain.cron.days_of_month import EVERY_DAY, DaysOfMonth, parse_days_of_month
from tickwheel.domain.cron.days_of_week import EVERY_WEEKDAY, DaysOfWeek, parse_days_of_week
from tickwheel.domain.cron.errors import CronError
from tickwheel.domain.cron.fields import DAY_OF_MONTH, HOUR, MINUTE, MONTH, SECOND, plain_field
from tickwheel.domain.cron.rule import Rule
from tickwheel.domain.cron.times_of_day import TimesOfDay


def compile_rule(fields: list[str], warnings: list[str]) -> Rule:
    """The rule of the six field texts, second first; appends to `warnings`. Raises CronError."""
    second, minute, hour, day_of_month, month, day_of_week = fields
    times = TimesOfDay(
        plain_field(SECOND, second, warnings),
        plain_field(MINUTE, minute, warnings),
        plain_field(HOUR, hour, warnings),
    )
    fixed = "*" not in (second[0], minute[0], hour[0])
    days = DaysOfMonth(EVERY_DAY) if day_of_month == "?" else parse_days_of_month(day_of_month, warnings)
    months = plain_field(MONTH, month, warnings)
    weekdays = DaysOfWeek(EVERY_WEEKDAY) if day_of_week == "?" else parse_days_of_week(day_of_week, warnings)
    both = day_of_month[0] in "*?" or day_of_week[0] in "*?"
    calendar = Calendar(days, months, weekdays, both)
    if not calendar.every_day and not calendar.ever_matches():
        _reject_never(calendar, day_of_month, month, day_of_week)
    _warn_of_pair(calendar, day_of_month, day_of_week, warnings)
    return Rule(times, calendar, fixed)


def _reject_never(calendar: Calendar, day_of_month: str, month: str, day_of_week: str) -> None:
    longest = longest_month(calendar.months)
    if not Calendar(calendar.days_of_month, calendar.months, DaysOfWeek(EVERY_WEEKDAY), both=True).ever_matches():
        raise CronError(
            f"day-of-month: {day_of_month!a} never fires: month {month!a} has no such day; "
            f"allowed: 1-{longest} for {MONTH.name} {month!a}",
            DAY_OF_MONTH.name,
        )
    raise CronError(
        f"day-of-month: {day_of_month!a} never fires together with month {month!a} and day-of-week "
        f"{day_of_week!a}: no date matches; allowed: {DAY_OF_MONTH.allowed}, such that the month has the day",
        DAY_OF_MONTH.name,
    )


def _warn_of_pair(calendar: Calendar, day_of_month: str, day_of_week: str, warnings: list[str]) -> None:
    """What other dialects read differently when both day fields say something."""
    if calendar.both and (day_of_month in ("*", "?") or day_of_week in ("*", "?")):
        return
    pair = f"day-of-month {day_of_month!a} and day-of-week {day_of_week!a}"
    all_days = calendar.days_of_month.plain == EVERY_DAY
    all_weekdays = calendar.days_of_week.plain == EVERY_WEEKDAY
    if calendar.both and not all_days and not all_weekdays:
        warnings.append(
            f"{pair}: one begins with '*', so a day must match both (AND), as in Vixie and Debian cron; "
            "croniter, croner, cron-parser and robfig/cron would take either (OR)"
        )
    if not calendar.both and (all_days or all_weekdays):
        warnings.append(
            f"{pair}: neither begins with '*', so a day may match either (OR), and one of them is every day; "
            "write '*' in that field if both should hold"
        )
