"""Explains an instant of a job at which there is no run: not in the ledger, and not the next occurrence."""

from typing import Final

from tickwheel.domain.cron import parse_cron, preview
from tickwheel.domain.explanation.facts import Circumstances, Nearby
from tickwheel.domain.explanation.story import Cause, Code, Explanation, Verdict
from tickwheel.domain.explanation.waits import missed_how
from tickwheel.domain.explanation.words import at, sentence
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import RunState
from tickwheel.domain.schedule import next_occurrence, previous_occurrence
from tickwheel.domain.timeline import Period

_DAY_MS: Final = 86_400_000
_LOOK_BACK_MS: Final = 400 * _DAY_MS
"""How far back the occurrence before an instant is looked for."""


def explain_absence(at_ms: int, known: Circumstances, gap: Period | None = None) -> Explanation:
    """Why nothing of the job ran at that instant, or will. `gap`: it was asked for a time that never came."""
    causes = _causes(at_ms, known, gap)
    before_ms, after_ms = _neighbours(at_ms, known.job)
    what = f"There is no run at {at(at_ms)}" if gap is None else "There is no such time"
    headline = f"{what}: {causes[0].sentence[:1].lower()}{causes[0].sentence[1:]}"
    return Explanation(Verdict.NO_RUN, headline, causes=tuple(causes), before_ms=before_ms, after_ms=after_ms)


def _causes(at_ms: int, known: Circumstances, gap: Period | None) -> list[Cause]:
    job = known.job
    if not job.recurring:
        return [_of_one_off(at_ms, job)]
    if gap is not None:
        return [_leapt_over(job, gap)]
    if not _is_occurrence(job, at_ms):
        return _outside(at_ms, job)
    if job.spec.start_ms is not None and at_ms < job.spec.start_ms:
        return [
            _cause(Code.BEFORE_START, f"the job has no occurrence before its start at {at(job.spec.start_ms)}")
        ]
    if job.spec.end_ms is not None and at_ms >= job.spec.end_ms:
        return [_cause(Code.AFTER_END, f"the job has no occurrence from its end at {at(job.spec.end_ms)} on")]
    if job.state in (JobState.CANCELLED, JobState.DELETED) and at_ms > job.effective_ms:
        return [_cause(Code.JOB_OVER, f"the job was cancelled at {at(job.updated_ms or job.created_ms)}")]
    return [_due(at_ms, known)]


def _due(at_ms: int, known: Circumstances) -> Cause:
    """Why an occurrence of the schedule has no row."""
    job = known.job
    for pause in known.pauses:
        if pause.from_ms <= at_ms and (pause.until_ms is None or at_ms <= pause.until_ms):
            return _paused(pause.from_ms, pause.until_ms)
    if job.state is JobState.PAUSED and at_ms >= job.effective_ms:
        return _paused(job.updated_ms, None)
    if at_ms <= job.created_ms:
        return _cause(Code.BEFORE_VERSION, f"the job was created at {at(job.created_ms)}, after it")
    stood_for = _stood_for(at_ms, known)
    if stood_for is not None:
        return stood_for
    if at_ms > known.now_ms:
        return _future(at_ms, known)
    if at_ms <= job.effective_ms:
        words = f"the job was changed at {at(job.effective_ms)}, and its occurrences of now lie after that"
        return _cause(Code.BEFORE_VERSION, words)
    if known.live_ms is not None and known.live_ms <= at_ms:
        words = f"the job's occurrence of {at(known.live_ms)} comes first, and has not been claimed yet"
        return _cause(Code.NOT_REACHED, words)
    return _cause(
        Code.NO_RECORD, "no record of it is left; runs that ended are deleted after a while (`retention`)"
    )


def _stood_for(at_ms: int, known: Circumstances) -> Cause | None:
    """An earlier one that was settled only after this one had come due: by catch-up, it stands for this one."""
    spec = known.job.spec
    before = max((one for one in known.earlier if one.scheduled_ms < at_ms), key=_instant, default=None)
    settled_ms = None if before is None else before.begun_ms or before.ended_ms
    if before is None or settled_ms is None or settled_ms < at_ms:
        return None
    if before.state is RunState.SKIPPED:
        words = f"it was one of many missed in a row, of which the first ({at(before.scheduled_ms)}) is recorded"
        return _cause(Code.CATCH_UP, f"{words} and the newest")
    words = (
        f"it was missed; the run of {at(before.scheduled_ms)}, which began at {at(settled_ms)}, stands for it: "
    )
    return _cause(Code.CATCH_UP, f"{words}the catch-up policy `{spec.catch_up.value}` {missed_how(spec.catch_up)}")


def _instant(one: Nearby) -> int:
    return one.scheduled_ms


def _future(at_ms: int, known: Circumstances) -> Cause:
    if known.job.state is JobState.COMPLETED:
        return _cause(Code.JOB_OVER, "the job has no occurrence left")
    first = "" if known.live_ms is None else f"; the next one is due at {at(known.live_ms)}"
    return _cause(Code.FUTURE, f"it is an occurrence that is still to come{first}")


def _paused(from_ms: int, until_ms: int | None) -> Cause:
    ended = "is paused since" if until_ms is None else "was paused from"
    until = "" if until_ms is None else f" to {at(until_ms)}"
    return Cause(Code.PAUSED, sentence(f"the job {ended} {at(from_ms)}{until}"), from_ms, until_ms)


def _of_one_off(at_ms: int, job: Job) -> Cause:
    if job.scheduled_ms is None or job.scheduled_ms == at_ms:
        return _cause(Code.NO_RECORD, "no record of it is left; runs that ended are deleted after a while")
    return _cause(Code.NOT_IN_SCHEDULE, f"the job runs once, at {at(job.scheduled_ms)}")


def _outside(at_ms: int, job: Job) -> list[Cause]:
    found = list[Cause]()
    note = _clock_note(at_ms, job)
    if note is not None:
        found.append(_cause(Code.CLOCK_CHANGE, note))
    return [*found, _cause(Code.NOT_IN_SCHEDULE, f"`{job.spec.cron}` in {job.spec.timezone} does not name it")]


def _leapt_over(job: Job, gap: Period) -> Cause:
    note = _clock_note(gap.start * 1_000, job)
    if note is None:
        note = f"the clock in {job.spec.timezone} was put forward over it at {at(gap.start * 1_000)}"
    return _cause(Code.CLOCK_CHANGE, note)


def _clock_note(at_ms: int, job: Job) -> str | None:
    """What a change of the clock within half a day did to the job, if there was one."""
    half_ms = _DAY_MS // 2
    changes = parse_cron(job.spec.cron, job.spec.timezone).timeline.changes(
        (at_ms - half_ms) // 1_000, (at_ms + half_ms) // 1_000
    )
    for period in changes:
        notes = preview(job.spec.cron, job.spec.timezone, period.start * 1_000 - 1_000, 1).notes
        if notes:
            return notes[0].partition(": ")[2]
    return None


def _is_occurrence(job: Job, at_ms: int) -> bool:
    return parse_cron(job.spec.cron, job.spec.timezone).next_after(at_ms - 1) == at_ms


def _neighbours(at_ms: int, job: Job) -> tuple[int | None, int | None]:
    if not job.recurring:
        return None, None
    before_ms = previous_occurrence(job.spec, at_ms, at_ms - _LOOK_BACK_MS)
    return before_ms, next_occurrence(job.spec, at_ms, at_ms)


def _cause(code: Code, words: str) -> Cause:
    return Cause(code, sentence(words))
