"""What each attempt did, whether its request reached the target, and why another one was made after it.

Example: attempt 1 had no answer within 30 s, attempt 2 was answered with 200. The target may have done the work
twice; attempt 2 has the higher token, and an end of attempt 1 that comes in now is refused.
"""

import re
from collections.abc import Sequence
from typing import Final

from tickwheel.domain.explanation.facts import AttemptFacts, RunFacts
from tickwheel.domain.explanation.story import AttemptStory, Cause, Code, Reached
from tickwheel.domain.explanation.words import length, ordinal, sentence
from tickwheel.domain.job import Job, TargetType
from tickwheel.domain.redaction import HIDDEN
from tickwheel.domain.run import RunState

_NOT_SENT: Final = (
    "no connection",
    "the connection was refused",
    "there is no route",
    "the name could not be resolved",
    "the TLS",
    "not started",
    "handed back without",
)
"""How errors begin after which nothing of the request was with the target."""
_SECRETS: Final = re.compile(
    r"""(?ix)
    (?P<name> ["']? [\w-]* (?:password|passwd|secret|token|authorization|api[_-]?key) [\w-]* ["']? \s* [:=] \s* )
    (?: (?P<quote>["']) (?: \\. | (?!(?P=quote)). )* (?P=quote)? | (?: (?:bearer|basic) \s+ )? [^\s,;&}<"']+ )
    | \b (?P<scheme>bearer|basic) \s+ [\w.~+/=-]{6,}
    """
)


def stories_of(run: RunFacts, job: Job) -> tuple[AttemptStory, ...]:
    """Every attempt that is recorded, in order."""
    stories = list[AttemptStory]()
    for number, record in enumerate(run.attempts):
        before = run.attempts[number - 1] if number else None
        stories.append(
            AttemptStory(
                attempt=record.attempt,
                fence=record.fence,
                worker=record.worker,
                outcome=record.outcome,
                reached=_reached(record, job),
                started_ms=record.started_ms,
                finished_ms=record.finished_ms,
                http_status=record.http_status,
                error=record.error,
                excerpt=None if record.excerpt is None else without_secrets(record.excerpt),
                why=None if before is None else _why(before, record),
            )
        )
    return tuple(stories)


def without_secrets(excerpt: str) -> str:
    """The beginning of an answer without what looks like a credential: targets echo what they were sent."""
    return _SECRETS.sub(_hidden, excerpt)


def _hidden(found: re.Match[str]) -> str:
    if found["scheme"]:
        return f"{found['scheme']} {HIDDEN}"
    quote = found["quote"] or ""
    return f"{found['name']}{quote}{HIDDEN}{quote}"


def repetition(stories: Sequence[AttemptStory], run: RunFacts) -> Cause | None:
    """Whether the target may have been called more than once, and which token counts; None if it was not."""
    calls = [story for story in stories if story.reached is not Reached.NO]
    if len(calls) < 2:
        return None
    reached = sum(story.reached is Reached.YES for story in calls)
    sure = "was" if reached == len(calls) else "may have been"
    last = calls[-1]
    why = next((story.why for story in reversed(calls) if story.why is not None), None)
    words = f"the target {sure} called {_times(len(calls))}; attempt {last.attempt} holds the token {last.fence}"
    if run.state is RunState.SUCCEEDED:
        words += ", and its success is the one that counts"
    words += "; an end of an earlier attempt that is reported later is refused"
    return Cause(Code.RETRY if why is None else why.code, sentence(words))


def what_happened(record: AttemptFacts | AttemptStory) -> str:
    """How an attempt ended, after "attempt 1"."""
    match record.outcome:
        case "success":
            return "succeeded"
        case "running":
            return "is running"
        case "timeout":
            return "had no answer in time" if not record.error else f"got no answer: {record.error}"
        case "lost":
            return "was lost with its worker"
        case "cancelled":
            return "was cancelled"
        case "unstarted":
            return "was handed back before it was done"
        case "snooze":
            return "asked to be called again later"
        case _:
            return f"failed: {record.error or record.outcome}"


def _reached(record: AttemptFacts, job: Job) -> Reached:
    if record.http_status or record.outcome in ("success", "snooze"):
        return Reached.YES
    if record.error is not None and record.error.startswith(_NOT_SENT):
        return Reached.NO
    if record.outcome in ("retryable", "permanent") and job.spec.target.type is TargetType.HANDLER:
        return Reached.YES
    return Reached.UNKNOWN


def _why(before: AttemptFacts, record: AttemptFacts) -> Cause:
    gap_ms = None
    if before.finished_ms is not None and record.started_ms is not None:
        gap_ms = max(0, record.started_ms - before.finished_ms)
    after = "" if gap_ms is None else f" {length(gap_ms)} later"
    again = f"so the {ordinal(record.attempt)} was made{after}"
    first = f"attempt {before.attempt}"
    if record.attempt <= before.attempt and before.outcome not in ("unstarted", "snooze"):
        words = f"{first} was the last one, and a redrive sent the run on its way anew"
        return Cause(Code.REDRIVEN, sentence(words))
    match before.outcome:
        case "timeout":
            doubt = "" if _reached_not(before) else "; the target may have done the work all the same"
            return Cause(Code.TIMEOUT, sentence(f"{first} {what_happened(before)}{doubt}, {again}"))
        case "lost":
            words = f"the worker of {first} was lost, and whether its call was made is unknown, {again}"
            return Cause(Code.WORKER_LOST, sentence(words))
        case "unstarted":
            return Cause(Code.HANDED_BACK, sentence(f"{first} {what_happened(before)}, {again}"))
        case "snooze":
            return Cause(Code.SNOOZED, sentence(f"{first} {what_happened(before)}, {again}"))
    return Cause(Code.RETRY, sentence(f"{first} {what_happened(before)}, {again}"))


def _reached_not(record: AttemptFacts) -> bool:
    return record.error is not None and record.error.startswith(_NOT_SENT)


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"
