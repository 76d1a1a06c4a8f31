"""The values that the examples share; one story runs through the whole reference."""

from typing import Any, Final

Json = dict[str, Any]

JOB_ID: Final = "job_01KB87RMR0003MZHB1C9HP8SB6"
RUN_ID: Final = "run_00SNM3WAC0001TFRNGP4RV4CNK00001KB881SQ0"

ONE_OFF: Final[Json] = {
    "schedule_type": "DELAYED",
    "delay_seconds": 300,
    "target": {"type": "HTTP_WEBHOOK", "endpoint": "https://example.com/orders/cancel-expired"},
    "payload": {"order_id": "ord-8812"},
}
CRON: Final[Json] = {
    "tenant_id": "tenant_enterprise_01",
    "job_name": "monthly_billing_aggregation",
    "schedule_type": "CRON",
    "cron_expression": "0 2 1 * *",
    "timezone": "America/New_York",
    "priority": "HIGH",
    "target": {
        "type": "HTTP_WEBHOOK",
        "endpoint": "https://billing.example.com/invoices/generate",
        "method": "POST",
        "timeout_seconds": 120,
        "headers": {"Content-Type": "application/json"},
    },
    "payload": {"billing_cycle": "2025-11", "dry_run": False},
    "retry_policy": {
        "max_retries": 3,
        "initial_interval_sec": 10,
        "backoff_multiplier": 2.0,
        "max_interval_sec": 300,
    },
}
COMPACT: Final[Json] = {
    "target_endpoint": "https://api.example.com/orders/cancel-expired",
    "payload": {"order_id": "ord-8812"},
    "trigger_type": "DELAYED",
    "execute_at": "2030-10-22T14:30:00Z",
    "max_retries": 3,
    "idempotency_key": "sch-idem-4412",
}
CREATED: Final[Json] = {
    "job_id": JOB_ID,
    "tenant_id": "default",
    "status": "SCHEDULED",
    "schedule_type": "DELAYED",
    "next_run_time_epoch_ms": 1764434700000,
    "next_run_time_iso": "2025-11-29T16:45:00.000Z",
    "created_at": "2025-11-29T16:40:00.000Z",
    "retry_policy": {
        "max_retries": 3,
        "initial_interval_sec": 10,
        "backoff_multiplier": 2.0,
        "max_interval_sec": 300,
    },
}
RUN_BRIEF: Final[Json] = {"run_id": RUN_ID, "scheduled_at": "2025-11-29T16:45:00.000Z", "status": "RUNNING"}
TRIGGERED: Final[Json] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "scheduled_at": "2025-11-29T16:45:00.000Z",
    "status": "SCHEDULED",
}
JOB: Final[Json] = {
    "job_id": JOB_ID,
    "tenant_id": "default",
    "status": "RUNNING",
    "last_heartbeat_at": "2025-11-29T16:45:10.000Z",
    "current_lease_worker_id": "node-a-4711-5f0e2c1a",
    "current_attempt": 1,
    "current_progress": None,
    "current_note": None,
    "fencing_token": 4294967400,
    "job_name": None,
    "schedule_type": "DELAYED",
    "execute_at": "2025-11-29T16:45:00.000Z",
    "cron_expression": None,
    "timezone": None,
    "start_at": None,
    "end_at": None,
    "priority": "DEFAULT",
    "target": {
        "type": "HTTP_WEBHOOK",
        "timeout_seconds": 30,
        "endpoint": "https://example.com/orders/cancel-expired",
        "method": "POST",
        "headers": {"Authorization": "[redacted]"},
    },
    "payload": {"order_id": "ord-8812"},
    "retry_policy": {
        "max_retries": 3,
        "initial_interval_sec": 10,
        "backoff_multiplier": 2.0,
        "max_interval_sec": 300,
    },
    "catch_up": None,
    "overlap": None,
    "concurrency": [{"scope": "key", "key": "customer-42", "limit": 2}],
    "deadline_seconds": None,
    "tags": [],
    "idempotency_key": None,
    "next_run_time_epoch_ms": None,
    "next_run_time_iso": None,
    "overdue_seconds": None,
    "waits_for": None,
    "last_run": RUN_BRIEF,
    "version": 1,
    "created_at": "2025-11-29T16:40:00.000Z",
    "updated_at": None,
}
TIMELINE: Final[Json] = {
    "armed": "2025-11-29T16:40:00.002Z",
    "claimed": "2025-11-29T16:45:00.004Z",
    "dispatched": "2025-11-29T16:45:00.004Z",
    "started": "2025-11-29T16:45:00.004Z",
    "finished": None,
    "lateness_ms": 4,
}
RUN: Final[Json] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "tenant_id": "default",
    "status": "RUNNING",
    "scheduled_at": "2025-11-29T16:45:00.000Z",
    "priority": "DEFAULT",
    "attempt": 1,
    "fencing_token": 4294967400,
    "worker_id": "node-a-4711-5f0e2c1a",
    "skip_reason": None,
    "lost_count": 0,
    "retry_at": None,
    "http_status": None,
    "error": None,
    "timeline": TIMELINE,
}
ATTEMPT: Final[Json] = {
    "attempt": 1,
    "fencing_token": 4294967400,
    "worker_id": "node-a-4711-5f0e2c1a",
    "outcome": "retryable",
    "started_at": "2025-11-29T16:45:00.004Z",
    "finished_at": "2025-11-29T16:45:00.089Z",
    "http_status": 503,
    "error": "HTTP 503",
    "excerpt": "upstream is starting",
}
FAILED_RUN: Final[Json] = {
    **RUN,
    "status": "FAILED",
    "http_status": 503,
    "error": "HTTP 503",
    "timeline": {**TIMELINE, "finished": "2025-11-29T16:45:00.089Z"},
    "progress": None,
    "note": None,
    "result": None,
    "result_dropped": None,
    "attempts": [ATTEMPT],
}
DEAD_LETTER: Final[Json] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "tenant_id": "default",
    "job_name": None,
    "scheduled_at": "2025-11-29T16:45:00.000Z",
    "failed_at": "2025-11-29T16:46:12.300Z",
    "attempts": 4,
    "cause": "no attempt left after 4",
    "error": "HTTP 503",
    "http_status": 503,
}
