"""How explanations are answered. Header values are hidden, and what looks like a credential in an answer."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwheel.domain.explanation import AttemptStory, Cause, Explanation, Step
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import Job, TargetType
from tickwheel.domain.redaction import redacted
from tickwheel.domain.requests.definition import REDACTED
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.services.explanations import Explained


class CauseBody(msgspec.Struct):
    """One reason: a stable code, and a sentence for people. The instants say when it held, where that is known."""

    code: str
    sentence: str
    from_at: str | None
    until_at: str | None


class StepBody(msgspec.Struct):
    """A station of the run; `took_ms` is the time since the one before."""

    step: str
    at: str
    took_ms: int | None
    attempt: int | None
    note: str | None


class CallBody(msgspec.Struct):
    """What an attempt sends, by the definition that the job has now: a webhook's request, or a handler's name."""

    method: str | None
    endpoint: str | None
    headers: dict[str, str] | None
    handler: str | None
    payload_bytes: int


class AttemptStoryBody(msgspec.Struct):
    """One attempt. `reached_target` is `yes`, `no` or `unknown`; `why` says why it was made after another one."""

    attempt: int
    fencing_token: int
    worker_id: str
    outcome: str
    reached_target: str
    started_at: str | None
    finished_at: str | None
    took_ms: int | None
    request: CallBody
    http_status: int | None
    error: str | None
    excerpt: str | None
    why: CauseBody | None


class ExplanationBody(msgspec.Struct):
    """Why a run did not run, ran late or ran twice. The weightiest cause is the first."""

    run_id: str
    job_id: str
    tenant_id: str
    scheduled_at: str
    verdict: Annotated[
        str,
        Meta(
            description="`on_time`, `late`, `waiting` (due, not begun), `upcoming`, `paused`, `skipped`,"
            " `cancelled` (before it began) or `no_run` (there is no such run)."
        ),
    ]
    headline: str
    lateness_ms: int | None
    causes: list[CauseBody]
    timeline: list[StepBody]
    attempts: list[AttemptStoryBody]
    edited_since: Annotated[
        bool, Meta(description="The job was changed after this run began: `request` shows what it has now.")
    ]
    occurrence_before: str | None
    occurrence_after: str | None
    see_also: Annotated[
        list[str],
        Meta(description="Run ids of further instants that the time asked for names, or of what came of it."),
    ]


def explanation_body(explained: Explained) -> ExplanationBody:
    """The whole answer."""
    job, explanation = explained.job, explained.explanation
    return ExplanationBody(
        run_id=run_id_text(job.job_id, explained.scheduled_ms),
        job_id=job_id_text(job.job_id),
        tenant_id=job.tenant_id,
        scheduled_at=iso_text(explained.scheduled_ms),
        verdict=explanation.verdict.value,
        headline=explanation.headline,
        lateness_ms=explanation.lateness_ms,
        causes=[_cause(cause) for cause in explanation.causes],
        timeline=[_step(step) for step in explanation.steps],
        attempts=[_attempt(story, job, explained.scheduled_ms) for story in explanation.attempts],
        edited_since=_edited_since(job, explanation),
        occurrence_before=iso(explanation.before_ms),
        occurrence_after=iso(explanation.after_ms),
        see_also=[run_id_text(job.job_id, other_ms) for other_ms in explained.others_ms],
    )


def _cause(cause: Cause) -> CauseBody:
    return CauseBody(cause.code.value, cause.sentence, iso(cause.from_ms), iso(cause.until_ms))


def _step(step: Step) -> StepBody:
    return StepBody(step.step, iso_text(step.at_ms), step.took_ms, step.attempt, step.note or None)


def _attempt(story: AttemptStory, job: Job, scheduled_ms: int) -> AttemptStoryBody:
    return AttemptStoryBody(
        attempt=story.attempt,
        fencing_token=story.fence,
        worker_id=story.worker,
        outcome=story.outcome,
        reached_target=story.reached.value,
        started_at=iso(story.started_ms),
        finished_at=iso(story.finished_ms),
        took_ms=story.took_ms,
        request=_call(story, job, scheduled_ms),
        http_status=story.http_status or None,
        error=story.error,
        excerpt=story.excerpt,
        why=None if story.why is None else _cause(story.why),
    )


def _call(story: AttemptStory, job: Job, scheduled_ms: int) -> CallBody:
    target, size = job.spec.target, len(job.payload.encode())
    if target.type is TargetType.HANDLER:
        return CallBody(None, None, None, target.name, size)
    run_id = run_id_text(job.job_id, scheduled_ms)
    headers = {name: REDACTED for name, _ in target.headers} | {
        "webhook-id": run_id,
        "Idempotency-Key": run_id,
        "X-Fencing-Token": str(story.fence),
        "X-Attempt": str(story.attempt),
        "X-Max-Attempts": str(job.spec.retry.max_attempts),
        "X-Scheduled-At": iso_text(scheduled_ms),
    }
    return CallBody(target.method, redacted(target.endpoint), headers, None, size)


def _edited_since(job: Job, explanation: Explanation) -> bool:
    started = [story.started_ms for story in explanation.attempts if story.started_ms is not None]
    return bool(started) and job.version > 1 and job.updated_ms > min(started)


EXPLANATION_TYPES: Final[tuple[Any, ...]] = (ExplanationBody,)
"""What the OpenAPI document describes from here."""
