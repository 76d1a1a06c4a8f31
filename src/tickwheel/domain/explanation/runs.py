"""Explains a run that has a ledger row, or is the live occurrence of its job."""

from collections.abc import Sequence

from tickwheel.domain.explanation.attempts import repetition, stories_of, what_happened
from tickwheel.domain.explanation.facts import Circumstances, Nearby, RunFacts, first_start_ms
from tickwheel.domain.explanation.steps import steps_of
from tickwheel.domain.explanation.story import AttemptStory, Cause, Code, Explanation, Verdict
from tickwheel.domain.explanation.waits import LATE_AFTER_MS, Wait, causes_of, missed_how
from tickwheel.domain.explanation.words import at, length, ordinal, sentence
from tickwheel.domain.job import CatchUp, JobState
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason


def explain_run(run: RunFacts, known: Circumstances) -> Explanation:
    """Why it ran as it did, or why it has not."""
    stories = stories_of(run, known.job)
    steps = steps_of(run, stories, known.job.created_ms)
    begun_ms = first_start_ms(run)
    if begun_ms is None and not stories:
        explained = _unbegun(run, known)
    else:
        explained = _begun(run, known, stories, begun_ms)
    verdict, headline, lateness_ms, causes = explained
    return Explanation(verdict, headline, lateness_ms, tuple(causes), steps, stories)


_Parts = tuple[Verdict, str, int | None, Sequence[Cause]]


def _unbegun(run: RunFacts, known: Circumstances) -> _Parts:
    match run.state:
        case RunState.SKIPPED:
            causes = _skip_causes(run, known)
            return Verdict.SKIPPED, f"Did not run: {_clause(causes[0])}", None, causes
        case RunState.CANCELLED:
            cause = _cancelled(run)
            return Verdict.CANCELLED, f"Did not run: {_clause(cause)}", None, [cause]
        case RunState.PAUSED:
            cause = _paused(known)
            return Verdict.PAUSED, f"Does not run: {_clause(cause)}", None, [cause]
    if run.scheduled_ms > known.now_ms:
        return _upcoming(run, known)
    wait = Wait(run.scheduled_ms, known.now_ms)
    waits = causes_of(run, wait, known)
    due = f"due since {at(run.scheduled_ms)}"
    if not waits:
        return Verdict.WAITING, f"Is about to run: it came due {length(wait.length_ms)} ago.", None, ()
    return Verdict.WAITING, f"Waits for {length(wait.length_ms)}, {due}: {_clause(waits[0])}", None, waits


def _begun(run: RunFacts, known: Circumstances, stories: Sequence[AttemptStory], begun_ms: int | None) -> _Parts:
    lateness_ms = None if begun_ms is None else begun_ms - run.scheduled_ms
    late = lateness_ms is not None and lateness_ms >= LATE_AFTER_MS
    causes = list(causes_of(run, Wait(run.scheduled_ms, begun_ms), known)) if begun_ms is not None else []
    timing = "Ran"
    if late:
        timing = f"Ran {length(lateness_ms or 0)} late"
    elif lateness_ms is not None:
        timing = f"Ran on time, {length(max(0, lateness_ms))} after its instant"
    why = f": {_clause(causes[0])}" if causes else "."
    causes += [story.why for story in stories if story.why is not None]
    again = repetition(stories, run)
    ending, end_causes = _ending(run, stories)
    causes += end_causes
    twice = f" {again.sentence}" if again is not None else ""
    if again is not None and all(cause.code is not again.code for cause in causes):
        causes.append(again)
    return Verdict.LATE if late else Verdict.ON_TIME, f"{timing}{why} {ending}{twice}", lateness_ms, causes


def _ending(run: RunFacts, stories: Sequence[AttemptStory]) -> tuple[str, list[Cause]]:
    """The sentence about how it stands, and the causes if it did not end well."""
    count, last = max(len(stories), run.attempt), stories[-1] if stories else None
    which = f"the {ordinal(run.attempt)} attempt" if run.attempt > 1 else "the first attempt"
    error = run.error or (last.error if last is not None else None)
    match run.state:
        case RunState.SUCCEEDED:
            return sentence(f"{which} succeeded"), []
        case RunState.FAILED:
            many = "after one attempt" if count == 1 else f"after {count} attempts"
            failed = Cause(Code.FAILED, sentence(f"it failed for good {many}: {error or 'no reason is recorded'}"))
            return failed.sentence, [failed]
        case RunState.CANCELLED:
            when = "" if run.finished_ms is None else f" at {at(run.finished_ms)}"
            cancelled = Cause(Code.CANCELLED, sentence(f"it was cancelled{when}, after it had begun"))
            return cancelled.sentence, [cancelled]
        case RunState.SCHEDULED:
            ended = "" if last is None else f"attempt {last.attempt} {what_happened(last)}; "
            when = "" if run.retry_ms is None else f" at {at(run.retry_ms)}"
            return sentence(f"{ended}it is tried again{when}"), []
    if run.state in IN_FLIGHT:
        return sentence(f"{which} is under way"), []
    return sentence(f"it is {run.state.name}"), []


def _upcoming(run: RunFacts, known: Circumstances) -> _Parts:
    left = length(run.scheduled_ms - known.now_ms)
    cause = Cause(Code.FUTURE, sentence(f"it is due at {at(run.scheduled_ms)}, in {left}"))
    return Verdict.UPCOMING, f"Has not run yet: {_clause(cause)}", None, [cause]


def _paused(known: Circumstances) -> Cause:
    since_ms = known.pauses[-1].from_ms if known.pauses else known.job.updated_ms
    return Cause(Code.PAUSED, sentence(f"its job is paused since {at(since_ms)}"), since_ms)


def _cancelled(run: RunFacts) -> Cause:
    if run.finished_ms is None:
        return Cause(Code.CANCELLED, "It was cancelled before it began.")
    apart = length(abs(run.finished_ms - run.scheduled_ms))
    when = f"{apart} before it was due" if run.finished_ms < run.scheduled_ms else f"{apart} after it came due"
    words = f"it was cancelled at {at(run.finished_ms)}, {when}"
    return Cause(Code.CANCELLED, sentence(words), run.finished_ms, run.finished_ms)


def _skip_causes(run: RunFacts, known: Circumstances) -> list[Cause]:
    """Why it was skipped, and then why it was not fired in time where that was the reason."""
    job, spec = known.job, known.job.spec
    settled_ms = run.finished_ms or run.scheduled_ms
    late = length(max(0, settled_ms - run.scheduled_ms))
    wait = Wait(run.scheduled_ms, settled_ms)
    match run.skip_reason:
        case SkipReason.PAUSED:
            words = f"its job was paused when it came due, and the policy for that {missed_how(spec.catch_up)}"
            code = Code.PAUSED
        case SkipReason.OVERLAP:
            words, code = f"{_other_run(run, known.earlier)}, and its overlap policy is `skip`", Code.OVERLAP
        case SkipReason.CATCH_UP:
            words = f"it was missed, noticed {late} after its instant, and the job's catch-up policy "
            words += f"`{CatchUp.SKIP.value}` {missed_how(CatchUp.SKIP)}"
            code = Code.CATCH_UP
        case SkipReason.SUPERSEDED:
            words, code = f"the job was edited at {at(settled_ms)}, before it ran", Code.SUPERSEDED
        case SkipReason.DEADLINE:
            within = length(spec.deadline_ms or 0)
            words = f"its turn came {late} after its instant, and its deadline lets it begin within {within} only"
            code = Code.DEADLINE
        case SkipReason.LIMIT if spec.catch_up is CatchUp.FIRE_ALL and not spec.concurrency:
            words = f"more occurrences were missed than the newest {spec.catch_up_max} that catch-up runs"
            code = Code.MISSED_LIMIT
        case SkipReason.LIMIT:
            words = "all slots of its limit were taken, and as many runs waited for one as may (`max_waiting`)"
            code = Code.LIMIT
        case _:
            words, code = f"it was skipped at {at(settled_ms)}, and no reason is recorded", Code.NO_RECORD
    causes = [Cause(code, sentence(words), run.scheduled_ms, settled_ms)]
    if code in (Code.CATCH_UP, Code.DEADLINE, Code.MISSED_LIMIT):
        causes += [cause for cause in causes_of(run, wait, known) if cause.code not in (code, Code.CATCH_UP)]
    if job.state is JobState.PAUSED and code is Code.PAUSED:
        causes.append(_paused(known))
    return causes


def _other_run(run: RunFacts, earlier: Sequence[Nearby]) -> str:
    for other in earlier:
        over_ms = other.ended_ms
        if other.begun_ms is not None and (over_ms is None or over_ms >= run.scheduled_ms):
            went_on = "is still not over" if over_ms is None else f"went on until {at(over_ms)}"
            return f"the job's run of {at(other.scheduled_ms)} {went_on}"
    return "an earlier run of the job had not ended"


def _clause(cause: Cause) -> str:
    return f"{cause.sentence[:1].lower()}{cause.sentence[1:]}"
