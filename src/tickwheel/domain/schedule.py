"""When occurrences are due, and what becomes of the late ones.

**On time or missed.** An occurrence is *missed* when nobody could fire it in its time: a later one of the same
job is due as well, or it came due before this process was alive, or it is over `MISSED_AFTER_MS` late. Everything
else is merely late (a slow disk, a burst) and runs, whatever the catch-up policy: late work is dropped only by
a deadline that the user set.

**Catch-up**, for an occurrence that is due now, one at a time, so that each step is one claim in the ledger:

* `fire_once` runs it under its own scheduled time; the next one lies after now. Down from 11:30 to 13:30 with
  `30 12 * * *` gives one run at 13:30, scheduled for 12:30, and then tomorrow's.
* `fire_all` runs it if it is among the newest `catch_up_max` missed ones, else records it as SKIPPED (LIMIT); the
  next one is the one after it, also when that lies in the past.
* `skip` records each missed one as SKIPPED (CATCH_UP), back to back, until the first that isn't missed.

Records of a mass skip are bounded: of a long row only the newest `RECORDED_SKIPS` get a ledger row of their own,
and the first, which stands for the rest. Else a job of every second would spend hours on the records of a week.

All functions are pure; times are UTC epoch milliseconds, occurrences strictly ascending.
"""

from collections.abc import Iterator, Set
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from tickwheel.domain.columns import ClaimAction
from tickwheel.domain.cron import parse_cron
from tickwheel.domain.job import CatchUp, Spec
from tickwheel.domain.limits import DAY_MS
from tickwheel.domain.run import SkipReason

MISSED_AFTER_MS: Final = 60_000
"""So late an occurrence counts as missed even if no later one is due."""
RECORDED_SKIPS: Final = 1000
"""How many skipped occurrences in a row get a ledger row each."""
_MINUTE_MS: Final = 60_000
_CRON_FIELDS_WITH_SECONDS: Final = 6


class OccurrencePlan(NamedTuple):
    """What the claim of a due occurrence does; `reason` is NONE for RUN. `next_ms` None: no occurrence left."""

    action: ClaimAction
    reason: SkipReason
    next_ms: int | None


class Settled(NamedTuple):
    """What becomes of one occurrence that is due when its job is changed; it runs if `reason` is NONE."""

    scheduled_ms: int
    reason: SkipReason


class _Calendar(NamedTuple):
    """The part of a spec that says when."""

    cron: str
    timezone: str
    start_ms: int | None
    end_ms: int | None

    def next_after(self, after_ms: int) -> int | None:
        if self.start_ms is not None and self.start_ms > after_ms:
            after_ms = self.start_ms - 1
        next_ms = parse_cron(self.cron, self.timezone).next_after(after_ms)
        if next_ms is None or (self.end_ms is not None and next_ms >= self.end_ms):
            return None
        return next_ms

    def between(self, after_ms: int, until_ms: int) -> Iterator[int]:
        """Occurrences in (after_ms, until_ms], ascending."""
        at = self.next_after(after_ms)
        while at is not None and at <= until_ms:
            yield at
            at = self.next_after(at)

    @property
    def shortest_gap_ms(self) -> int:
        """No two occurrences are closer than this."""
        return 1000 if len(self.cron.split()) == _CRON_FIELDS_WITH_SECONDS else _MINUTE_MS


def next_occurrence(spec: Spec, after_ms: int, effective_ms: int) -> int | None:
    """The first occurrence of a recurring job strictly after both; None if there is none."""
    return _calendar(spec).next_after(max(after_ms, effective_ms))


def previous_occurrence(spec: Spec, before_ms: int, since_ms: int) -> int | None:
    """The last occurrence before an instant that lies after another one; None if there is none."""
    newest = _newest(_calendar(spec), since_ms, before_ms - 1, 1)
    return newest[-1] if newest else None


def first_occurrence(spec: Spec, now_ms: int) -> int | None:
    """The first occurrence of a job that is created now: never one that lies before it."""
    return _calendar(spec).next_after(now_ms)


def deadline_passed(spec: Spec, scheduled_ms: int, now_ms: int) -> bool:
    """Whether it is too late now to start the run scheduled for `scheduled_ms`."""
    return spec.deadline_ms is not None and now_ms > scheduled_ms + spec.deadline_ms


def plan_occurrence(
    spec: Spec, scheduled_ms: int, effective_ms: int, now_ms: int, alive_since_ms: int = 0
) -> OccurrencePlan:
    """What to do with the occurrence at `scheduled_ms` (due by now), and which one comes next.

    `effective_ms` is that of the job's version; `alive_since_ms` is when this process began to fire.
    """
    following_ms = _calendar(spec).next_after(max(scheduled_ms, effective_ms))
    too_late = deadline_passed(spec, scheduled_ms, now_ms)
    if following_ms is None or following_ms > now_ms:
        missed = scheduled_ms < alive_since_ms or now_ms - scheduled_ms > MISSED_AFTER_MS
        if too_late:
            return _skip(SkipReason.DEADLINE, following_ms)
        if missed and spec.catch_up is CatchUp.SKIP:
            return _skip(SkipReason.CATCH_UP, following_ms)
        return _run(following_ms)
    match spec.catch_up:
        case CatchUp.FIRE_ONCE:
            return _plan_once(spec, following_ms, now_ms, too_late)
        case CatchUp.FIRE_ALL:
            if not too_late and not _due_at_least(spec, following_ms, now_ms, spec.catch_up_max):
                return _run(following_ms)
            reason = SkipReason.DEADLINE if too_late else SkipReason.LIMIT
            return _skip(reason, _leap(spec, following_ms, now_ms, RECORDED_SKIPS + spec.catch_up_max))
        case CatchUp.SKIP:
            reason = SkipReason.DEADLINE if too_late else SkipReason.CATCH_UP
            return _skip(reason, _leap(spec, following_ms, now_ms, RECORDED_SKIPS))


def settle(
    spec: Spec, first_ms: int | None, now_ms: int, skip_reason: SkipReason, taken: Set[int] = frozenset()
) -> list[Settled]:
    """What becomes of the occurrences from `first_ms` up to now when the job is edited, paused or resumed.

    Decided like in `plan_occurrence`, but all at once and oldest first; those in `taken` have a ledger row and are
    left alone. `skip_reason` is noted where the policy skips. Of a long row the newest `RECORDED_SKIPS` are
    kept, and the first.
    """
    if first_ms is None or first_ms > now_ms:
        return []
    due = _newest(_calendar(spec), first_ms - 1, now_ms, RECORDED_SKIPS + spec.catch_up_max)
    if not due or due[0] != first_ms:
        due.insert(0, first_ms)
    due = [at for at in due if at not in taken]
    in_time = [at for at in due if not deadline_passed(spec, at, now_ms)]
    reasons = dict.fromkeys(due, SkipReason.DEADLINE)
    reasons |= dict.fromkeys(in_time, skip_reason)
    reasons |= dict.fromkeys(_chosen(spec, in_time, now_ms), SkipReason.NONE)
    return _bounded([Settled(at, reason) for at, reason in reasons.items()])


def _chosen(spec: Spec, in_time: list[int], now_ms: int) -> list[int]:
    match spec.catch_up:
        case CatchUp.FIRE_ONCE:
            return in_time[:1]
        case CatchUp.FIRE_ALL:
            return in_time[-spec.catch_up_max :]
        case CatchUp.SKIP:
            return [at for at in in_time[-1:] if now_ms - at <= MISSED_AFTER_MS]


def _bounded(settled: list[Settled]) -> list[Settled]:
    skipped = [one for one in settled[1:] if one.reason is not SkipReason.NONE]
    left_out = set(skipped[:-RECORDED_SKIPS])
    return [one for one in settled if one not in left_out]


def _calendar(spec: Spec) -> _Calendar:
    return _Calendar(spec.cron, spec.timezone, spec.start_ms, spec.end_ms)


def _run(next_ms: int | None) -> OccurrencePlan:
    return OccurrencePlan(ClaimAction.RUN, SkipReason.NONE, next_ms)


def _skip(reason: SkipReason, next_ms: int | None) -> OccurrencePlan:
    return OccurrencePlan(ClaimAction.SKIP, reason, next_ms)


def _plan_once(spec: Spec, following_ms: int, now_ms: int, too_late: bool) -> OccurrencePlan:
    calendar = _calendar(spec)
    if not too_late or spec.deadline_ms is None:
        return _run(calendar.next_after(now_ms))
    # Straight on to the first one that is still in time: the ones between would be too late as well.
    return _skip(SkipReason.DEADLINE, calendar.next_after(max(following_ms, now_ms - spec.deadline_ms) - 1))


def _due_at_least(spec: Spec, following_ms: int, now_ms: int, count: int) -> bool:
    """Whether `count` or more occurrences are due from `following_ms` on."""
    oldest_ms = _oldest_of(_calendar(spec), following_ms, now_ms, count)
    return oldest_ms is not None and following_ms <= oldest_ms


def _leap(spec: Spec, following_ms: int, now_ms: int, kept_count: int) -> int:
    """The next one of a row of skips: the following one, or further on if over `kept_count` are due."""
    oldest_ms = _oldest_of(_calendar(spec), following_ms, now_ms, kept_count)
    return following_ms if oldest_ms is None else max(following_ms, oldest_ms)


def _oldest_of(calendar: _Calendar, following_ms: int, now_ms: int, count: int) -> int | None:
    """The `count`-th newest occurrence that is due, if about so many are due from `following_ms` on."""
    gap_ms = calendar.shortest_gap_ms
    if (now_ms - following_ms) // gap_ms + 1 < count:
        return None
    return _oldest_kept(calendar, following_ms // DAY_MS, now_ms // gap_ms, count)


@lru_cache(maxsize=1024)
def _oldest_kept(calendar: _Calendar, from_day: int, until_gap: int, count: int) -> int | None:
    """The `count`-th newest occurrence since a day; kept while no new one can come, for all steps of a row."""
    newest = _newest(calendar, from_day * DAY_MS - 1, until_gap * calendar.shortest_gap_ms, count)
    return newest[0] if len(newest) == count else None


def _newest(calendar: _Calendar, after_ms: int, until_ms: int, count: int) -> list[int]:
    """The newest `count` occurrences in (after_ms, until_ms], ascending.

    Walks back in stretches, the first as long as `count` occurrences take at least and each twice as long as the
    one before, or half when it holds far too many. So it costs little more than `count` steps, whatever lies
    between.
    """
    found: list[int] = []
    stretch_ms = count * calendar.shortest_gap_ms
    while after_ms < until_ms and len(found) < count:
        from_ms = max(after_ms, until_ms - stretch_ms)
        part = list(islice(calendar.between(from_ms, until_ms), 2 * count + 1))
        if len(part) > 2 * count:
            stretch_ms //= 2
        else:
            found, until_ms, stretch_ms = part + found, from_ms, 2 * stretch_ms
    return found[-count:]
