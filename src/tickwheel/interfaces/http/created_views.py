"""The answers of creates. In a batch there are thousands of them, so they are short and made in one go."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.id_columns import job_id_texts
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import DEFAULT_TENANT, Spec
from tickwheel.domain.outcome import WhenExhausted
from tickwheel.domain.requests.definition import seconds
from tickwheel.domain.run import RunState
from tickwheel.interfaces.http.answers import BatchBody, CatchUpBody, CreatedBody, RetryBody, TriggeredBody
from tickwheel.interfaces.http.wire import Header, encode, iso, iso_text, problem_of
from tickwheel.services.ingest import Created

_SCHEDULED: Final = RunState.SCHEDULED.name


def created_body(created: Created) -> CreatedBody:
    """The answer for one job, with the policies that hold."""
    body = _short_body(created)
    body.retry_policy, body.catch_up = _policies(created.spec)
    body.replayed = msgspec.UNSET  # a header says so: the answer itself is the first one again
    return body


def batch_body(results: Sequence[Created | TickwheelError]) -> BatchBody:
    """The answer for many: a job or a problem each, in order."""
    items: list[object] = list(results)
    made = [(number, one) for number, one in enumerate(results) if isinstance(one, Created)]
    if len(made) < len(results):
        for number, one in enumerate(results):
            if isinstance(one, TickwheelError):
                items[number] = problem_of(one)
    replayed_count = 0
    texts = job_id_texts([created.job_id for _, created in made])
    for (number, created), job_id in zip(made, texts, strict=True):
        if created.replayed or created.warnings:
            replayed_count += created.replayed
            items[number] = _short_body(created)
        else:
            items[number] = _plain_text(created, job_id)
    return BatchBody(items, len(made) - replayed_count, replayed_count, len(results) - len(made))


def _plain_text(created: Created, job_id: str) -> msgspec.Raw:
    """The same text as of `_short_body`, for a job that was made and has no warnings."""
    next_ms = created.next_ms
    when = "null" if next_ms is None else f'"{_iso(next_ms)}"'
    return msgspec.Raw(
        f'{{"job_id":"{job_id}","tenant_id":{_json(created.tenant_id)},"status":"{_SCHEDULED}",'
        f'"schedule_type":"{created.schedule_type.value}",'
        f'"next_run_time_epoch_ms":{"null" if next_ms is None else next_ms},'
        f'"next_run_time_iso":{when},"created_at":"{_iso(created.created_ms)}"}}'
    )


_iso: Final = lru_cache(maxsize=1024)(iso_text)


@lru_cache(maxsize=1024)
def _json(text: str) -> str:
    return encode(text).decode()


def triggered_body(created: Created) -> TriggeredBody:
    """The answer of a trigger: the run, and the job that was made for it."""
    scheduled_ms = created.created_ms if created.next_ms is None else created.next_ms
    return TriggeredBody(
        run_id=run_id_text(created.job_id, scheduled_ms),
        job_id=job_id_text(created.job_id),
        scheduled_at=iso_text(scheduled_ms),
        status=_SCHEDULED,
    )


def location(job_id: str, tenant_id: str) -> Header:
    """Where the job can be read."""
    tenant = "" if tenant_id == DEFAULT_TENANT else f"?tenant_id={quote(tenant_id, safe='')}"
    return b"location", f"/v1/jobs/{job_id}{tenant}".encode()


def _short_body(created: Created) -> CreatedBody:
    return CreatedBody(
        job_id_text(created.job_id),
        created.tenant_id,
        _SCHEDULED,
        created.schedule_type,
        created.next_ms,
        iso(created.next_ms),
        iso_text(created.created_ms),
        warnings=list(created.warnings) if created.warnings else msgspec.UNSET,
        replayed=created.replayed or msgspec.UNSET,
    )


@lru_cache(maxsize=1024)
def _policies(spec: Spec) -> tuple[RetryBody, CatchUpBody | msgspec.UnsetType]:
    retry = spec.retry
    policy = RetryBody(
        max_retries=retry.max_retries,
        initial_interval_sec=seconds(retry.initial_interval_ms),
        backoff_multiplier=retry.multiplier,
        max_interval_sec=seconds(retry.max_interval_ms),
        when_exhausted=msgspec.UNSET
        if retry.when_exhausted is WhenExhausted.DEAD_LETTER
        else retry.when_exhausted.value,
    )
    if not spec.cron:
        return policy, msgspec.UNSET
    return policy, CatchUpBody(spec.catch_up.value, spec.catch_up_max)
