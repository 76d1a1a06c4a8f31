"""Requests to start from."""

import json
from typing import Any

from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.request import parse_job_request

BILLING: dict[str, Any] = {
    "tenant_id": "tenant_enterprise_01",
    "job_name": "monthly_billing_aggregation",
    "schedule_type": "CRON",
    "cron_expression": "0 2 1 * *",
    "timezone": "America/New_York",
    "priority": "HIGH",
    "target": {
        "type": "HTTP_WEBHOOK",
        "endpoint": "https://billing.internal.aws/invoices/generate",
        "method": "POST",
        "timeout_seconds": 120,
        "headers": {"Content-Type": "application/json"},
    },
    "payload": {"billing_cycle": "2026-09", "dry_run": False},
    "retry_policy": {
        "max_retries": 3,
        "initial_interval_sec": 10,
        "backoff_multiplier": 2.0,
        "max_interval_sec": 300,
    },
}
ONCE: dict[str, Any] = {
    "schedule_type": "ONE_OFF",
    "execute_at": "2026-10-22T14:30:00Z",
    "target": {"endpoint": "https://a.example/x"},
}


def raw(members: dict[str, Any], **more: Any) -> bytes:
    """The request as text, with members added or replaced; `...` takes one out."""
    merged = {name: value for name, value in (members | more).items() if value is not ...}
    return json.dumps(merged).encode()


def parse(members: dict[str, Any], **more: Any) -> JobRequest:
    return parse_job_request(raw(members, **more))


def problems_of(text: bytes) -> dict[str, str]:
    """Field -> message; the text must be turned away."""
    try:
        parse_job_request(text)
    except InvalidRequest as error:
        return {problem.field: problem.message for problem in error.problems}
    raise AssertionError("the request was taken")


def refused(members: dict[str, Any], **more: Any) -> dict[str, str]:
    return problems_of(raw(members, **more))
