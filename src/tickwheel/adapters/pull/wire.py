"""The bodies of the pull protocol, as far as a worker reads and writes them."""

from typing import Any

import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.ids import IdError, parse_run_id, run_id_text
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.domain.run_trace import RunTrace
from tickwheel.domain.signing_key import parse_secret
from tickwheel.domain.trace_context import parse_trace_context
from tickwheel.ports.remote_work import Assignment, Beat, Ended


class TargetBody(msgspec.Struct):
    """What to call, of a webhook; `signing_secrets` are the tenant's, if it has any."""

    endpoint: str
    method: str
    headers: dict[str, str]
    signing_secrets: list[str] = []

    def __repr__(self) -> str:
        return f"TargetBody({self.method} {self.endpoint}, headers={list(self.headers)!r})"  # no values


class RunBody(msgspec.Struct):
    """A run that was given."""

    run_id: str
    fencing_token: int
    attempt: int
    max_attempts: int
    lane: str
    tenant_id: str
    timeout_ms: int
    job_name: str | None = None
    handler: str | None = None
    target: TargetBody | None = None
    payload: msgspec.Raw = msgspec.Raw(b"")
    idempotency_key: str | None = None
    traceparent: str = ""
    tracestate: str = ""

    def assignment(self, sent_mono_ms: int) -> Assignment:
        """As the worker has it. Raises `TickwheelError` for what no server of ours says."""
        payload = bytes(self.payload)
        try:
            job_id, scheduled_ms = parse_run_id(self.run_id)
            lane = Lane[self.lane]
            signing_keys = self._signing_keys()
        except (IdError, KeyError, ValueError) as error:
            raise TickwheelError(f"the server gave a run that can't be read: {error!r}") from error
        return Assignment(
            job_id=job_id,
            scheduled_ms=scheduled_ms,
            fence=self.fencing_token,
            attempt=self.attempt,
            max_attempts=self.max_attempts,
            lane=lane,
            tenant_id=self.tenant_id,
            target=self._target(),
            payload=b"" if payload == b"null" else payload,
            idempotency_key=self.idempotency_key,
            job_name=self.job_name or "",
            sent_mono_ms=sent_mono_ms,
            signing_keys=signing_keys,
            trace=self._trace(),
        )

    def _trace(self) -> RunTrace | None:
        context = parse_trace_context(self.traceparent.encode(), self.tracestate.encode())
        return None if context is None else RunTrace(context)

    def _signing_keys(self) -> tuple[bytes, ...] | None:
        if self.target is None or not self.target.signing_secrets:
            return None
        return tuple(map(parse_secret, self.target.signing_secrets))

    def _target(self) -> Target:
        if self.target is None:
            return Target(type=TargetType.HANDLER, name=self.handler or "", timeout_ms=self.timeout_ms)
        return Target(
            type=TargetType.HTTP_WEBHOOK,
            endpoint=self.target.endpoint,
            method=self.target.method,
            headers=tuple(self.target.headers.items()),
            timeout_ms=self.timeout_ms,
        )


class PollAnswer(msgspec.Struct):
    """The answer to a poll."""

    worker_id: str
    session_seconds: float
    lease_seconds: float
    runs: list[RunBody] = []
    cancelled: list[str] = []
    lost: list[str] = []


class BeatAnswer(msgspec.Struct):
    """What became of one lease."""

    run_id: str
    status: str


class HeartbeatAnswer(msgspec.Struct):
    """The answer to a heartbeat."""

    session_open: bool
    runs: list[BeatAnswer] = []


class EndAnswer(msgspec.Struct):
    """What became of one report."""

    run_id: str
    accepted: bool
    reason: str | None = None


class EndsAnswer(msgspec.Struct):
    """The answer to reports."""

    runs: list[EndAnswer]


class LeaveAnswer(msgspec.Struct):
    """The answer to a leave."""

    left: bool


def run_id(given: Assignment) -> str:
    """As the API names the run."""
    return run_id_text(given.job_id, given.scheduled_ms)


def beat_body(beat: Beat) -> dict[str, Any]:
    """An attempt that goes on."""
    body: dict[str, Any] = {"run_id": run_id(beat.assignment), "fencing_token": beat.assignment.fence}
    if beat.progress is not None:
        said = {"progress": beat.progress.progress, "note": beat.progress.note}
        body |= {name: value for name, value in said.items() if value is not None}
    return body


def end_body(ended: Ended) -> dict[str, Any]:
    """A report, for `complete` or `fail` by its outcome."""
    outcome, given = ended.outcome, ended.assignment
    body: dict[str, Any] = {"run_id": run_id(given), "fencing_token": given.fence}
    if 100 <= outcome.http_status <= 599:
        body["http_status"] = outcome.http_status
    if outcome.outcome_class is OutcomeClass.SUCCESS:
        if outcome.result is not None:
            body["result"] = msgspec.Raw(outcome.result)
        if outcome.result_dropped is not None:
            body["result_dropped"] = outcome.result_dropped
        return body
    if outcome.error is not None:
        body["error"] = outcome.error
    return body | _kind(outcome)


def _kind(outcome: Outcome) -> dict[str, Any]:
    after_s = None if outcome.retry_after_ms is None else outcome.retry_after_ms / 1000
    match outcome.outcome_class:
        case OutcomeClass.UNSTARTED:
            return {"unstarted": True}
        case OutcomeClass.CANCELLED:
            return {"cancelled": True}
        case OutcomeClass.SNOOZE:
            return {"snooze_seconds": after_s or 0}
        case OutcomeClass.PERMANENT:
            return {"retryable": False}
        case OutcomeClass.TIMEOUT:
            return {"timed_out": True}
        case OutcomeClass.LOST:
            return {"lost": True}
        case _:
            return {} if after_s is None else {"retry_after_seconds": after_s}
