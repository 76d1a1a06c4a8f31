"""Times of the wall clock without an offset, as instants: none in a gap, two in an overlap."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tickwheel.domain.limits import EPOCH_MS_MAX
from tickwheel.domain.requests.instants import EPOCH, InstantError
from tickwheel.domain.timeline import Period, timeline_of

_FORM: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d)?", re.ASCII)
_AROUND_S: Final = 2 * 86_400
"""No offset from UTC, and no leap of a clock, is longer."""


class Wall(NamedTuple):
    """`instants_ms` that show this time, ascending; `gap`: the period whose beginning leapt over it."""

    instants_ms: tuple[int, ...]
    gap: Period | None


def is_wall(text: str) -> bool:
    """Whether it is a date and a time without an offset."""
    return _FORM.fullmatch(text) is not None


def read_wall(text: str, zone: str) -> Wall:
    """When the clock of that zone shows it. Raises `InstantError` for a date that is none."""
    try:
        wall_s = int((datetime.fromisoformat(text.upper()).replace(tzinfo=UTC) - EPOCH) / timedelta(seconds=1))
    except (ValueError, OverflowError) as error:
        raise InstantError(f"is not a date and time that exists ({error})") from error
    if not _AROUND_S <= wall_s <= EPOCH_MS_MAX // 1_000 - _AROUND_S:
        raise InstantError("lies before 1970-01-03 or after 9999-12-29")
    timeline = timeline_of(zone)
    begin_s, end_s = wall_s - _AROUND_S, wall_s + _AROUND_S
    moved = timeline.fold_back(begin_s)
    first = timeline.period(timeline.index_at(begin_s - moved))
    periods = [
        Period(begin_s, first.end + moved, first.offset, 0),
        *timeline.changes(begin_s, end_s),
    ]
    instants = tuple(
        (wall_s - one.offset) * 1_000 for one in periods if one.start <= wall_s - one.offset < one.end
    )
    gaps = (one for one in periods[1:] if one.jump > 0 and one.high <= wall_s < one.start + one.offset)
    return Wall(instants, next(gaps, None))
