"""Every request of the API as a value: what to send, how to read the answer, and whether it may be sent again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from tickwheel.domain.ids import RUN_PREFIX
from tickwheel.interfaces.client import cause_models, explanation_models, models, slo_models
from tickwheel.interfaces.client.job_fields import edit_json, job_json, new_key

T = TypeVar("T")
BATCH_COUNT: Final = 10_000
"""Jobs per request of a batch: the server's bound."""
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. `path` begins with a slash and carries the query.

    `repeatable`: sending it again after an answer that never came does no harm. `gone_is_done`: when it was sent
    again, "not found" means that the first one worked. `if_replayed` is applied to an answer whose header says
    that an earlier request made it.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    if_match: str | None = None
    idempotency_key: str | None = None
    repeatable: bool = True
    gone_is_done: bool = False
    if_replayed: Callable[[T], T] | None = None

    def raw(self) -> "Call[bytes]":
        """The same request, its answer unread."""
        return replace(self, read=bytes, if_replayed=None)  # type: ignore[arg-type,return-value]  # T changes


def _reader(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


_created: Final = _reader(models.CreatedJob)
_job: Final = _reader(models.Job)
_jobs: Final = _reader(models.JobPage)
_run: Final = _reader(models.Run)
_runs: Final = _reader(models.RunPage)
_triggered: Final = _reader(models.TriggeredRun)
_dead_letters: Final = _reader(models.DeadLetterPage)
_causes: Final = _reader(cause_models.CauseList)
_redriven: Final = _reader(models.Redriven)
_preview: Final = _reader(models.Preview)
_health: Final = _reader(models.Health)
_workers: Final = _reader(models.WorkerList)
_slo: Final = _reader(slo_models.Slo)
_explanation: Final = _reader(explanation_models.Explanation)
_token: Final = _reader(models.Token)
_tokens: Final = _reader(models.TokenList)
_secret: Final = _reader(models.Secret)
_secrets: Final = _reader(models.SecretList)
_audit_log: Final = _reader(models.AuditLogPage)


class _Batch(msgspec.Struct):
    results: list[msgspec.Raw]


class _Item(msgspec.Struct):
    job_id: str | None = None


_batch: Final = _reader(_Batch)
_item: Final = _reader(_Item)
_refused: Final = _reader(models.RefusedJob)


def _results(body: bytes) -> models.BatchResult:
    return models.BatchResult(
        results=tuple(
            _refused(raw) if _item(raw).job_id is None else _created(raw) for raw in _batch(body).results
        )
    )


def _replayed(job: models.CreatedJob) -> models.CreatedJob:
    return msgspec.structs.replace(job, replayed=True)


def _nothing(body: bytes) -> None:
    return None


def create_job(fields: Mapping[str, Any], tenant_id: str | None) -> Call[models.CreatedJob]:
    """POST /v1/jobs, with an idempotency key of our own where the fields have none."""
    return create_from_json(job_json(fields, tenant_id, key=new_key()))


def create_from_json(body: bytes) -> Call[models.CreatedJob]:
    """POST /v1/jobs with JSON that holds an idempotency key."""
    return Call(method="POST", path="/v1/jobs", body=body, read=_created, if_replayed=_replayed)


def create_jobs(body: bytes) -> Call[models.BatchResult]:
    """POST /v1/jobs/batch with an array of at most `BATCH_COUNT` jobs, each with an idempotency key."""
    return Call(method="POST", path="/v1/jobs/batch", body=body, read=_results)


def put_job(name: str, fields: Mapping[str, Any], tenant_id: str | None) -> Call[models.Job]:
    """PUT /v1/jobs/by-name/{name}."""
    path = f"/v1/jobs/by-name/{quote(name, safe='')}" + _query(tenant_id)
    return Call(method="PUT", path=path, body=job_json(fields, None), read=_job)


def get_job(job_id: str, tenant_id: str | None) -> Call[models.Job]:
    """GET /v1/jobs/{id}."""
    return Call(method="GET", path=_job_path(job_id) + _query(tenant_id), read=_job)


def list_jobs(tenant_id: str | None, filters: Mapping[str, Any]) -> Call[models.JobPage]:
    """GET /v1/jobs."""
    return Call(method="GET", path="/v1/jobs" + _query(tenant_id, filters), read=_jobs)


def edit_job(
    job_id: str, fields: Mapping[str, Any], tenant_id: str | None, if_version: int | None
) -> Call[models.Job]:
    """PATCH /v1/jobs/{id}. A relative time or a version makes a repetition differ from the first one."""
    return Call(
        method="PATCH",
        path=_job_path(job_id) + _query(tenant_id),
        body=edit_json(fields),
        if_match=_etag(if_version),
        repeatable=if_version is None and fields.get("delay_seconds") is None,
        read=_job,
    )


def cancel_job(job_id: str, tenant_id: str | None) -> Call[None]:
    """POST /v1/jobs/{id}/cancel; cancelling again answers the same."""
    return Call(method="POST", path=_job_path(job_id) + "/cancel" + _query(tenant_id), read=_nothing)


def pause_job(job_id: str, tenant_id: str | None) -> Call[models.Job]:
    """POST /v1/jobs/{id}/pause."""
    return Call(method="POST", path=_job_path(job_id) + "/pause" + _query(tenant_id), read=_job)


def resume_job(job_id: str, tenant_id: str | None) -> Call[models.Job]:
    """POST /v1/jobs/{id}/resume."""
    return Call(method="POST", path=_job_path(job_id) + "/resume" + _query(tenant_id), read=_job)


def trigger_job(job_id: str, tenant_id: str | None) -> Call[models.TriggeredRun]:
    """POST /v1/jobs/{id}/trigger, with an idempotency key: sent again, it is the same run."""
    path = _job_path(job_id) + "/trigger" + _query(tenant_id)
    return Call(method="POST", path=path, idempotency_key=new_key(), read=_triggered)


def delete_job(job_id: str, tenant_id: str | None) -> Call[None]:
    """DELETE /v1/jobs/{id}."""
    path = _job_path(job_id) + _query(tenant_id)
    return Call(method="DELETE", path=path, gone_is_done=True, read=_nothing)


def list_runs(job_id: str, tenant_id: str | None, page: Mapping[str, Any]) -> Call[models.RunPage]:
    """GET /v1/jobs/{id}/runs."""
    return Call(method="GET", path=_job_path(job_id) + "/runs" + _query(tenant_id, page), read=_runs)


def get_run(run_id: str, tenant_id: str | None) -> Call[models.Run]:
    """GET /v1/runs/{id}."""
    return Call(method="GET", path=_run_path(run_id) + _query(tenant_id), read=_run)


def cancel_run(run_id: str, tenant_id: str | None) -> Call[None]:
    """POST /v1/runs/{id}/cancel; cancelling again answers the same."""
    return Call(method="POST", path=_run_path(run_id) + "/cancel" + _query(tenant_id), read=_nothing)


def explain_run(run_id: str, tenant_id: str | None) -> Call[explanation_models.Explanation]:
    """GET /v1/runs/{id}/explain."""
    return Call(method="GET", path=_run_path(run_id) + "/explain" + _query(tenant_id), read=_explanation)


def explain(
    run_or_job_id: str, at: datetime | str | None, tenant_id: str | None
) -> Call[explanation_models.Explanation]:
    """Of a run by its id, or of a job at a time. Raises `ValueError` for a run with a time: it has its own."""
    if not run_or_job_id.startswith(RUN_PREFIX):
        return explain_job(run_or_job_id, at, tenant_id)
    if at is not None:
        raise ValueError("a time goes with a job; a run has its instant")
    return explain_run(run_or_job_id, tenant_id)


def explain_job(
    job_id: str, at: datetime | str | None, tenant_id: str | None
) -> Call[explanation_models.Explanation]:
    """GET /v1/jobs/{id}/explain; None: its latest run, or its next one."""
    path = _job_path(job_id) + "/explain" + _query(tenant_id, {"at": at})
    return Call(method="GET", path=path, read=_explanation)


def list_dead_letters(tenant_id: str | None, page: Mapping[str, Any]) -> Call[models.DeadLetterPage]:
    """GET /v1/dlq."""
    return Call(method="GET", path="/v1/dlq" + _query(tenant_id, page), read=_dead_letters)


def dead_letter_causes(tenant_id: str | None) -> Call[cause_models.CauseList]:
    """GET /v1/dlq/causes."""
    return Call(method="GET", path="/v1/dlq/causes" + _query(tenant_id), read=_causes)


def redrive(
    run_ids: Sequence[str] | None, tenant_id: str | None, *, cause: str | None = None, job_id: str | None = None
) -> Call[models.Redriven]:
    """POST /v1/dlq/redrive; nothing named: all. Its answer counts what it did, so it isn't sent again."""
    named: dict[str, Any] = {"run_ids": run_ids and list(run_ids), "cause": cause, "job_id": job_id}
    wanted = {name: value for name, value in named.items() if value is not None} or {"all": True}
    path = "/v1/dlq/redrive" + _query(tenant_id)
    return Call(method="POST", path=path, body=_encode(wanted), repeatable=False, read=_redriven)


def delete_dead_letter(run_id: str, tenant_id: str | None) -> Call[None]:
    """DELETE /v1/dlq/{run_id}."""
    path = f"/v1/dlq/{quote(run_id, safe='')}" + _query(tenant_id)
    return Call(method="DELETE", path=path, gone_is_done=True, read=_nothing)


def preview_schedule(question: Mapping[str, Any]) -> Call[models.Preview]:
    """POST /v1/schedules/preview."""
    body = _encode({name: value for name, value in question.items() if value is not None})
    return Call(method="POST", path="/v1/schedules/preview", body=body, read=_preview)


def list_workers(tenant_id: str | None) -> Call[models.WorkerList]:
    """GET /v1/workers."""
    return Call(method="GET", path="/v1/workers" + _query(tenant_id), read=_workers)


def slo(tenant_id: str | None) -> Call[slo_models.Slo]:
    """GET /v1/slo; None: all objectives."""
    return Call(method="GET", path="/v1/slo" + _query(tenant_id), read=_slo)


def list_tokens(tenant_id: str | None) -> Call[models.TokenList]:
    """GET /v1/tokens; None: all that may be seen."""
    return Call(method="GET", path="/v1/tokens" + _query(tenant_id), read=_tokens)


def create_token(fields: Mapping[str, Any]) -> Call[models.Token]:
    """POST /v1/tokens. Sent again it would make a second one."""
    body = _encode({name: value for name, value in fields.items() if value is not None})
    return Call(method="POST", path="/v1/tokens", body=body, repeatable=False, read=_token)


def rotate_token(token_id: str, grace_seconds: int) -> Call[models.Token]:
    """POST /v1/tokens/{id}/rotate. Sent again it would end the grace time of the first old secret."""
    path = f"/v1/tokens/{quote(token_id, safe='')}/rotate"
    body = _encode({"grace_seconds": grace_seconds})
    return Call(method="POST", path=path, body=body, repeatable=False, read=_token)


def revoke_token(token_id: str) -> Call[None]:
    """DELETE /v1/tokens/{id}."""
    return Call(method="DELETE", path=f"/v1/tokens/{quote(token_id, safe='')}", gone_is_done=True, read=_nothing)


def list_secrets(tenant_id: str | None) -> Call[models.SecretList]:
    """GET /v1/secrets."""
    return Call(method="GET", path="/v1/secrets" + _query(tenant_id), read=_secrets)


def create_secret(name: str, value: str | None, tenant_id: str | None) -> Call[models.Secret]:
    """POST /v1/secrets. Sent again it would find the first one."""
    body = _encode({"name": name, "value": value})
    path = "/v1/secrets" + _query(tenant_id)
    return Call(method="POST", path=path, body=body, repeatable=False, read=_secret)


def rotate_secret(
    name: str, value: str | None, overlap_seconds: int, tenant_id: str | None
) -> Call[models.Secret]:
    """POST /v1/secrets/{name}/rotate. Sent again it would drop the first key."""
    path = f"/v1/secrets/{quote(name, safe='')}/rotate{_query(tenant_id)}"
    body = _encode({"overlap_seconds": overlap_seconds, "value": value})
    return Call(method="POST", path=path, body=body, repeatable=False, read=_secret)


def delete_secret(name: str, tenant_id: str | None) -> Call[None]:
    """DELETE /v1/secrets/{name}."""
    path = f"/v1/secrets/{quote(name, safe='')}{_query(tenant_id)}"
    return Call(method="DELETE", path=path, gone_is_done=True, read=_nothing)


def audit_log(tenant_id: str | None, filters: Mapping[str, Any]) -> Call[models.AuditLogPage]:
    """GET /v1/audit-log; tenant None: all that may be seen."""
    return Call(method="GET", path="/v1/audit-log" + _query(tenant_id, filters), read=_audit_log)


def health() -> Call[models.Health]:
    """GET /healthz."""
    return Call(method="GET", path="/healthz", read=_health)


def _job_path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _run_path(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"


def _query(tenant_id: str | None, more: Mapping[str, Any] | None = None) -> str:
    given = {"tenant_id": tenant_id, **(more or {})}
    pairs = {name: _text(value) for name, value in given.items() if value is not None}
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _etag(version: int | None) -> str | None:
    return None if version is None else f'"{version}"'
