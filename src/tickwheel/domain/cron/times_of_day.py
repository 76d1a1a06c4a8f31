"""Second, minute and hour fields together: which seconds of a day match."""

from dataclasses import dataclass, field


def lowest_bit(mask: int) -> int:
    """The position of the lowest set bit; `mask` isn't 0."""
    return (mask & -mask).bit_length() - 1


@dataclass(frozen=True, slots=True)
class TimesOfDay:
    """Masks of the three fields; none is 0. A time is counted in seconds from 00:00:00 on the wall."""

    seconds: int
    minutes: int
    hours: int
    first: int = field(init=False)
    """The earliest matching second of a day."""

    def __post_init__(self) -> None:
        first = lowest_bit(self.hours) * 3600 + lowest_bit(self.minutes) * 60 + lowest_bit(self.seconds)
        object.__setattr__(self, "first", first)

    def at_or_after(self, second_of_day: int) -> int:
        """The earliest matching second of the day >= `second_of_day`, or -1 when the day has none left."""
        hour, rest = divmod(second_of_day, 3600)
        if self.hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self.minutes >> minute & 1:
                seconds_left = self.seconds >> second
                if seconds_left:
                    return second_of_day + lowest_bit(seconds_left)
            minutes_left = self.minutes >> (minute + 1)
            if minutes_left:
                minute += 1 + lowest_bit(minutes_left)
                return hour * 3600 + minute * 60 + lowest_bit(self.seconds)
        hours_left = self.hours >> (hour + 1)
        if not hours_left:
            return -1
        hour += 1 + lowest_bit(hours_left)
        return hour * 3600 + lowest_bit(self.minutes) * 60 + lowest_bit(self.seconds)
