"""From the decoded body to the request: fills in defaults and gives up at the first thing that is odd."""

from typing import Final

from msgspec.structs import replace

from tickwheel.domain import limits
from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.cron import CronError, parse_cron
from tickwheel.domain.job import CatchUp, Lane, Overlap, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import RetryPolicy, WhenExhausted
from tickwheel.domain.requests.body import CommonBody, JobBody, OnceBody, RetryBody, TargetBody
from tickwheel.domain.requests.concurrency_rules import limit_faults
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.json_depth import nests_deeper_than
from tickwheel.domain.requests.target_rules import (
    endpoint_fault,
    handler_name_fault,
    header_faults,
    secret_name_fault,
)
from tickwheel.domain.requests.text_rules import key_fault, name_fault, new_tenant_fault, tag_faults, text_fault


class Doubtful(ValueError):
    """Something is not as it should be; `domain.requests.request_problems` says what."""


_LANES: Final = {lane.name: lane for lane in Lane}
_DEFAULT_RETRY: Final = RetryPolicy()
_NULL: Final = "null"
_SHALLOW_BYTES: Final = 2 * limits.PAYLOAD_DEPTH
"""JSON of so many bytes nests no deeper: each level has two brackets."""


def build_request(body: JobBody, tenant_id: str) -> JobRequest:
    """The request that `body` asks for, of `tenant_id` if it names none. Raises `Doubtful`."""
    if body.schedule_type is ScheduleType.CRON:
        return _build_cron(body, tenant_id)
    if not (
        body.cron_expression is None
        and body.timezone is None
        and body.catch_up is None
        and body.overlap is None
        and body.start_at is None
        and body.end_at is None
    ):
        raise Doubtful("a field of CRON jobs")
    spec = build_spec(body.target, body.retry_policy, body.deadline_seconds)
    if body.concurrency:
        spec = replace(spec, concurrency=_concurrency(body))
    return build_once(body, spec, tenant_id)


def build_once(body: JobBody | OnceBody, spec: Spec, tenant_id: str) -> JobRequest:
    """The request for a job that runs once, of `tenant_id` if it names no tenant. Raises `Doubtful`."""
    if body.schedule_type is ScheduleType.CRON:
        raise Doubtful("a job that recurs")
    return _assemble(body, spec, *_time(body), (), tenant_id)


def build_spec(target: TargetBody, retry: RetryBody | None, deadline_seconds: float | None) -> Spec:
    """The spec of a job that runs once. Raises `Doubtful`."""
    return Spec(_target(target), _retry(retry), deadline_ms=_length_ms(deadline_seconds))


def _time(body: CommonBody) -> tuple[int | None, int | None]:
    """(at_ms, delay_ms)"""
    given = (body.execute_at is not None) + (body.run_at_epoch_ms is not None) + (body.delay_seconds is not None)
    if given != (body.schedule_type is not ScheduleType.INSTANT):
        raise Doubtful("not exactly one time")
    if body.execute_at is not None:
        return _instant_ms(body.execute_at), None
    return body.run_at_epoch_ms, _length_ms(body.delay_seconds)


def _build_cron(body: JobBody, tenant_id: str) -> JobRequest:
    expression, timezone = body.cron_expression, body.timezone or "UTC"
    if expression is None or body.timezone == "":
        raise Doubtful("no expression, or an empty zone")
    if body.execute_at is not None or body.run_at_epoch_ms is not None or body.delay_seconds is not None:
        raise Doubtful("an instant beside an expression")
    try:
        warnings = parse_cron(expression, timezone).warnings
    except CronError as error:
        raise Doubtful(str(error)) from error
    start_ms = None if body.start_at is None else _instant_ms(body.start_at)
    end_ms = None if body.end_at is None else _instant_ms(body.end_at)
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        raise Doubtful("nothing between start and end")
    catch_up = body.catch_up
    policy = catch_up.policy if catch_up is not None else None
    most = catch_up.max if catch_up is not None else None
    spec = Spec(
        _target(body.target),
        _retry(body.retry_policy),
        cron=expression,
        timezone=timezone,
        catch_up=policy or CatchUp.FIRE_ONCE,
        catch_up_max=most or limits.CATCH_UP_DEFAULT,
        overlap=body.overlap or Overlap.ALLOW,
        deadline_ms=_length_ms(body.deadline_seconds),
        start_ms=start_ms,
        end_ms=end_ms,
        concurrency=_concurrency(body),
    )
    return _assemble(body, spec, None, None, warnings, tenant_id)


def _concurrency(body: JobBody) -> tuple[Limit, ...]:
    given = [(one.scope or Scope.KEY, one.key, one.limit, one.max_waiting) for one in body.concurrency or ()]
    if any(limit_faults([(scope, key) for scope, key, _, _ in given], body.job_name or "")):
        raise Doubtful("concurrency")
    limits = []
    for scope, key, limit, max_waiting in given:
        if limit is None or (key is not None and text_fault(key) is not None):
            raise Doubtful("a limit")
        limits.append(Limit(limit, scope, key or "", max_waiting))
    return tuple(limits)


def _assemble(
    body: CommonBody,
    spec: Spec,
    at_ms: int | None,
    delay_ms: int | None,
    warnings: tuple[str, ...],
    tenant_id: str,
) -> JobRequest:
    key, name = body.idempotency_key, body.job_name or ""
    if body.tenant_id is not None:
        if new_tenant_fault(body.tenant_id) is not None:
            raise Doubtful("tenant_id")
        tenant_id = body.tenant_id
    if (name and name_fault(name) is not None) or (key is not None and key_fault(key) is not None):
        raise Doubtful("job_name or idempotency_key")
    if body.tags and tag_faults(body.tags):
        raise Doubtful("tags")
    return JobRequest(
        tenant_id,
        name,
        body.schedule_type,
        Lane.DEFAULT if body.priority is None else _LANES[body.priority],
        spec,
        _payload(body),
        at_ms,
        delay_ms,
        () if body.tags is None else tuple(body.tags),
        key,
        warnings,
    )


def _payload(body: CommonBody) -> str:
    raw = bytes(body.payload)
    if len(raw) > _SHALLOW_BYTES and (
        len(raw) > limits.PAYLOAD_BYTES or nests_deeper_than(raw, limits.PAYLOAD_DEPTH)
    ):
        raise Doubtful("payload")
    text = raw.decode()
    return "" if text == _NULL else text


def _target(body: TargetBody) -> Target:
    timeout_ms = _length_ms(body.timeout_seconds) or limits.TIMEOUT_SECONDS_DEFAULT * 1000
    if body.type is TargetType.HANDLER:
        if body.name is None or handler_name_fault(body.name) is not None:
            raise Doubtful("target.name")
        if not (
            body.endpoint is None and body.method is None and body.headers is None and body.signing_secret is None
        ):
            raise Doubtful("a field of webhooks")
        return Target(TargetType.HANDLER, timeout_ms=timeout_ms, name=body.name)
    endpoint, headers = body.endpoint, body.headers
    if endpoint is None or body.name is not None or endpoint_fault(endpoint) is not None:
        raise Doubtful("target.endpoint, or a field of handlers")
    if headers and header_faults(headers):
        raise Doubtful("target.headers")
    if body.signing_secret is not None and secret_name_fault(body.signing_secret) is not None:
        raise Doubtful("target.signing_secret")
    return Target(
        TargetType.HTTP_WEBHOOK,
        endpoint,
        body.method or "POST",
        timeout_ms,
        tuple(headers.items()) if headers else (),
        signing_secret=body.signing_secret or "",
    )


def _retry(body: RetryBody | None) -> RetryPolicy:
    if body is None:
        return _DEFAULT_RETRY
    initial, cap = body.initial_interval_sec, body.max_interval_sec
    initial_ms = limits.INITIAL_SECONDS_DEFAULT * 1000 if initial is None else round(initial * 1000)
    if cap is None:
        cap_ms = max(limits.INTERVAL_CAP_SECONDS_DEFAULT * 1000, initial_ms)
    else:
        cap_ms = round(cap * 1000)
    if cap_ms < initial_ms:
        raise Doubtful("retry_policy.max_interval_sec")
    return RetryPolicy(
        limits.RETRIES_DEFAULT if body.max_retries is None else body.max_retries,
        initial_ms,
        limits.MULTIPLIER_DEFAULT if body.backoff_multiplier is None else body.backoff_multiplier,
        cap_ms,
        body.when_exhausted or WhenExhausted.DEAD_LETTER,
    )


def _length_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _instant_ms(text: str) -> int:
    try:
        return parse_instant(text)
    except InstantError as error:
        raise Doubtful(str(error)) from error
