"""What an expression says about the wall clock, before any zone comes in."""

from dataclasses import dataclass

from tickwheel.domain.cron.calendar import Calendar
from tickwheel.domain.cron.times_of_day import TimesOfDay

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Rule:
    """Wall seconds (seconds since 1970-01-01T00:00:00 on the wall) that match.

    `fixed`: neither second, minute nor hour begins with `*`, so the job is one that runs at certain times of the
    day, once a day each, and not one that runs every so often.
    """

    times: TimesOfDay
    calendar: Calendar
    fixed: bool

    def next_wall(self, wall: int, limit: int) -> int | None:
        """The earliest matching wall second in `[wall, limit)`, or None."""
        if wall >= limit:
            return None
        today, second = divmod(wall, _DAY_S)
        if self.calendar.every_day:
            day = today
        else:
            last_day = (limit - 1) // _DAY_S
            found = self.calendar.next_day(today, last_day)
            if found is None:
                return None
            day = found
        if day == today:
            time = self.times.at_or_after(second)
            if time < 0:
                return self.next_wall((today + 1) * _DAY_S, limit)
        else:
            time = self.times.first
        result = day * _DAY_S + time
        return result if result < limit else None
