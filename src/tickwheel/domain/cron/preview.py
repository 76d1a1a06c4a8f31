"""The next occurrences of an expression, with a sentence for each clock change that touches the job.

A change can leave no trace among the occurrences (a run that isn't repeated, one that is left out), so the notes
cover the whole stretch from the start to the last occurrence shown.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import timezone as fixed_offset
from itertools import islice

from tickwheel.domain.cron.rule import Rule
from tickwheel.domain.cron.schedule import CronSchedule, parse_cron
from tickwheel.domain.cron.search import LARGE_JUMP_S, makes_up, missed_in_gap
from tickwheel.domain.timeline import Period, Timeline

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NOTES = 200


@dataclass(frozen=True, slots=True)
class Preview:
    """`next_ms`: UTC epoch milliseconds. `local`: the same instants as ISO 8601 with the zone's offset.

    `notes`: one sentence per clock change between start and last occurrence that moves, drops or repeats a run.
    `warnings`: those of the expression.
    """

    next_ms: tuple[int, ...]
    local: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def preview(expression: str, timezone: str, start_ms: int, count: int) -> Preview:
    """The first `count` occurrences strictly after `start_ms`. Raises CronError."""
    schedule = parse_cron(expression, timezone)
    next_ms = tuple(islice(schedule.iter_after(start_ms), count))
    local = tuple(_local_text(schedule.timeline, due_ms // 1000) for due_ms in next_ms)
    notes = _notes(schedule, start_ms // 1000, next_ms[-1] // 1000) if next_ms else ()
    return Preview(next_ms, local, notes, schedule.warnings)


def _notes(schedule: CronSchedule, start_s: int, until_s: int) -> tuple[str, ...]:
    notes: list[str] = []
    for period in schedule.timeline.changes(start_s, until_s):
        note = _note(schedule.rule, period, schedule.timezone)
        if note:
            notes.append(note)
        if len(notes) == _MOST_NOTES:
            notes.append(f"more than {_MOST_NOTES} clock changes touch this job; the rest is left out here")
            break
    return tuple(notes)


def _note(rule: Rule, period: Period, zone: str) -> str | None:
    """What the clock change at the start of `period` does to the job, or None when it doesn't touch it."""
    before, after = period.start + period.offset - period.jump, period.start + period.offset
    change = f"{_wall_text(before)[:10]}: the clock in {zone} goes from {_moment(before, after)}"
    if period.jump < 0:
        repeated = rule.next_wall(after, period.high)
        if repeated is None:
            return None
        outcome = "in the first pass only" if rule.fixed else "in both passes"
        return f"{change}, so {_wall_text(repeated)} comes twice; what is due then runs {outcome}"
    missed = missed_in_gap(rule, period)
    if missed is None:
        return None
    lost = f"{change}, so {_wall_text(missed)} never comes"
    if makes_up(rule, period):
        return f"{lost}; what was due in the gap runs once, at {_wall_text(after)}"
    if rule.fixed and period.jump >= LARGE_JUMP_S:
        return f"{lost}; a jump of 3 hours or more is not made up for"
    return f"{lost}; nothing runs in the gap"


def _moment(before: int, after: int) -> str:
    same_day = before // 86_400 == after // 86_400
    return f"{_wall_text(before)[11:]} to {_wall_text(after)[11:] if same_day else _wall_text(after)}"


def _wall_text(wall: int) -> str:
    return (_EPOCH + timedelta(seconds=wall)).strftime("%Y-%m-%d %H:%M:%S")


def _local_text(timeline: Timeline, instant_s: int) -> str:
    offset = timeline.offset_at(instant_s)
    return (_EPOCH + timedelta(seconds=instant_s)).astimezone(fixed_offset(timedelta(seconds=offset))).isoformat()
