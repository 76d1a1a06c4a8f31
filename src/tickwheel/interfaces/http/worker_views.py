"""From the bodies of workers to what the services take, and back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tickwheel.domain.columns import FLAG_LANE_MASK
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.ids import IdError, job_id_text, parse_run_id, run_id_text
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.domain.outcome import (
    OK,
    RESULT_LIMIT_BYTES,
    Outcome,
    OutcomeClass,
    ProgressNote,
    clip_text,
)
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.interfaces.http.worker_bodies import (
    AssignedRun,
    BeatAnswer,
    BeatBody,
    CompletedRun,
    EndAnswer,
    FailedRun,
    PollRequest,
    WebhookBody,
    WorkerBody,
)
from tickwheel.ports.vault import NO_VAULT, CannotOpen, CannotSign, Vault, opened_headers
from tickwheel.ports.workers import WorkerNote, WorkerState
from tickwheel.services.remote.held import RunKey, trace_of
from tickwheel.services.remote.polling import Poll, Slots
from tickwheel.services.remote.reports import Beaten, Refusal, RunBeat, RunEnd
from tickwheel.services.remote.taking import Begun

NOWHERE: Final[RunKey] = (bytes(16), 0)
"""What an id that is none stands for: no run has it."""
_EITHER: Final = ("snooze_seconds", "unstarted", "cancelled", "timed_out", "lost")

B = TypeVar("B", CompletedRun, FailedRun)


def poll_of(request: PollRequest, tenant_id: str | None = None) -> Poll:
    """The poll of a caller bound to that tenant, or to none. Raises `InvalidRequest` for fields in conflict."""
    slots, worker = request.slots, request.worker
    problems = []
    if not request.handlers and not request.webhooks:
        problems.append(FieldProblem("handlers", "name at least one handler, or set webhooks", "required"))
    if slots.free > slots.total:
        problems.append(FieldProblem("slots.free", f"is more than slots.total ({slots.total})", "range"))
    if problems:
        raise InvalidRequest(problems)
    busy = slots.busy
    note = WorkerNote(
        name=worker.name,
        version=worker.version,
        handlers=tuple(dict.fromkeys(request.handlers)),
        webhooks=request.webhooks,
        slots=slots.total,
        busy=slots.total - slots.free if busy is None else sum(msgspec.structs.astuple(busy)),
        via="http",
        draining=worker.draining,
        stalled=worker.stalled,
        tenant_id=tenant_id,
    )
    return Poll(
        worker=worker.id or "",
        note=note,
        slots=Slots(slots.total, slots.free, None if busy is None else msgspec.structs.astuple(busy)),
        wait_ms=int(request.wait_seconds * 1000),
        holding=None if request.holding is None else tuple(keys_of(request.holding)),
    )


def keys_of(run_ids: Iterable[str]) -> list[RunKey]:
    """Those that are run ids; others name nothing that could be held."""
    return [key for text in run_ids if (key := key_of(text)) != NOWHERE]


def key_of(run_id: str) -> RunKey:
    """The run that an id names, or `NOWHERE`."""
    try:
        return parse_run_id(run_id)
    except IdError:
        return NOWHERE


def run_ids(keys: Iterable[RunKey]) -> list[str]:
    """As texts."""
    return [run_id_text(*key) for key in keys]


class RunSecrets(NamedTuple):
    """What opens the secrets of runs for their workers: the vault, and what has the tenants' signing secrets."""

    vault: Vault = NO_VAULT
    signing_values: Callable[[str, str], Sequence[str]] = lambda tenant_id, name: ()


def assigned_runs(
    begun: Iterable[Begun], secrets: RunSecrets
) -> tuple[list[AssignedRun], list[tuple[Begun, str]]]:
    """The runs as their worker gets them, and those whose secrets can't be opened, with what is wrong."""
    told, unsent = [], []
    for one in begun:
        try:
            told.append(assigned(one, secrets))
        except (CannotOpen, CannotSign) as error:
            unsent.append((one, str(error)))
    return told, unsent


def assigned(begun: Begun, secrets: RunSecrets) -> AssignedRun:
    """The run as its worker gets it. Raises `CannotOpen` and `CannotSign`."""
    target, definition = begun.spec.target, begun.definition
    is_handler = target.type is TargetType.HANDLER
    traced = trace_of(begun)
    trace = None if traced is None else traced.context
    payload: Any = msgspec.Raw(definition.payload.encode()) if definition.payload else None
    return AssignedRun(
        run_id=run_id_text(begun.job_id, begun.scheduled_ms),
        job_id=job_id_text(begun.job_id),
        job_name=definition.name or None,
        fencing_token=begun.fence,
        attempt=begun.attempt,
        max_attempts=begun.spec.retry.max_attempts,
        lane=Lane(begun.flags & FLAG_LANE_MASK).name,
        tenant_id=definition.tenant_id,
        handler=target.name if is_handler else None,
        target=None if is_handler else _webhook(definition.tenant_id, target, secrets),
        payload=payload,
        scheduled_at=iso_text(begun.scheduled_ms),
        lease_expires_at=iso_text(begun.lease_ms),
        timeout_ms=target.timeout_ms,
        idempotency_key=definition.idempotency_key,
        traceparent=trace.traceparent if trace is not None else msgspec.UNSET,
        tracestate=trace.state if trace is not None and trace.state else msgspec.UNSET,
    )


def _webhook(tenant_id: str, target: Target, secrets: RunSecrets) -> WebhookBody:
    return WebhookBody(
        target.endpoint,
        target.method,
        dict(opened_headers(secrets.vault, tenant_id, target)),
        list(secrets.signing_values(tenant_id, target.signing_secret)),
    )


def beat_of(body: BeatBody) -> RunBeat:
    """A sign of life."""
    says_nothing = body.progress is None and body.note is None
    return RunBeat(
        key_of(body.run_id), body.fencing_token, None if says_nothing else ProgressNote(body.progress, body.note)
    )


def beat_answer(body: BeatBody, beaten: Beaten) -> BeatAnswer:
    """What became of the lease."""
    status = "held" if beaten.refusal is None else beaten.refusal.value
    return BeatAnswer(body.run_id, status, iso(beaten.lease_ms) if beaten.refusal is None else None)


def success_of(body: CompletedRun) -> RunEnd:
    """A success, with its result if it is not too large."""
    outcome, result, dropped = OK, bytes(body.result), body.result_dropped
    if result or dropped or body.http_status is not None:
        fits = len(result) <= RESULT_LIMIT_BYTES
        outcome = Outcome(
            outcome_class=OutcomeClass.SUCCESS,
            http_status=body.http_status or 0,
            result=result if result and fits else None,
            result_dropped=(dropped and clip_text(dropped))
            if fits
            else f"{len(result)} bytes; at most {RESULT_LIMIT_BYTES} are kept",
        )
    return RunEnd(key_of(body.run_id), body.fencing_token, outcome)


def failures_of(bodies: Sequence[FailedRun]) -> list[RunEnd]:
    """Raises `InvalidRequest` naming all fields that do not go together."""
    problems = [problem for number, body in enumerate(bodies) for problem in _conflicts(f"runs[{number}]", body)]
    if problems:
        raise InvalidRequest(problems)
    return [RunEnd(key_of(body.run_id), body.fencing_token, _outcome(body)) for body in bodies]


def _conflicts(path: str, body: FailedRun) -> Iterable[FieldProblem]:
    given = [name for name in _EITHER if getattr(body, name) not in (None, False)]
    if len(given) > 1:
        yield FieldProblem(f"{path}.{given[1]}", f"doesn't go with {given[0]}", "conflict")
    if body.retry_after_seconds is not None and (not body.retryable or given not in ([], ["timed_out"])):
        other = given[0] if given else "retryable: false"
        yield FieldProblem(f"{path}.retry_after_seconds", f"doesn't go with {other}", "conflict")


def _outcome(body: FailedRun) -> Outcome:
    wait_ms = None if body.retry_after_seconds is None else int(body.retry_after_seconds * 1000)
    kind = OutcomeClass.RETRYABLE if body.retryable else OutcomeClass.PERMANENT
    default = "the worker gave no reason"
    if body.unstarted:
        kind, default = OutcomeClass.UNSTARTED, "handed back by the worker"
    elif body.cancelled:
        kind, default = OutcomeClass.CANCELLED, "cancelled by the worker"
    elif body.snooze_seconds is not None:
        kind, wait_ms = OutcomeClass.SNOOZE, int(body.snooze_seconds * 1000)
        default = f"snoozed for {body.snooze_seconds:g} s"
    elif body.lost:
        kind, default = OutcomeClass.LOST, "the process that made the attempt is gone"
    elif body.timed_out:
        kind, default = OutcomeClass.TIMEOUT, "timed out"
    return Outcome(
        outcome_class=kind,
        http_status=body.http_status or 0,
        error=clip_text(body.error or default),
        retry_after_ms=wait_ms,
    )


def end_answers(bodies: Sequence[B], refusals: Sequence[Refusal | None]) -> list[EndAnswer]:
    """What became of each."""
    return [
        EndAnswer(body.run_id, refusal is None, None if refusal is None else refusal.value)
        for body, refusal in zip(bodies, refusals, strict=True)
    ]


def worker_body(state: WorkerState) -> WorkerBody:
    """A worker as the list shows it."""
    note = state.note
    return WorkerBody(
        worker_id=state.incarnation,
        name=note.name,
        tenant_id=note.tenant_id,
        via=note.via,
        version=note.version,
        handlers=note.handlers,
        webhooks=note.webhooks,
        slots=note.slots,
        busy=note.busy,
        enlisted_at=iso_text(state.enlisted_ms),
        seen_at=iso_text(state.seen_ms),
        draining=note.draining,
        stalled=note.stalled,
    )
