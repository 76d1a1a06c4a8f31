"""Fields that a request does not have: refused by name, with the field that was probably meant."""

import difflib
from collections.abc import Iterable
from typing import Final

from tickwheel.domain.errors import FieldProblem
from tickwheel.domain.requests.fields import FIELDS
from tickwheel.domain.requests.payload_scan import step

_OTHER_WORDS: Final = {
    "cron": "cron_expression",
    "schedule": "cron_expression",
    "delay": "delay_seconds",
    "delay_ms": "delay_seconds",
    "run_at": "execute_at",
    "at": "execute_at",
    "when": "execute_at",
    "run_at_ms": "run_at_epoch_ms",
    "tz": "timezone",
    "time_zone": "timezone",
    "url": "target.endpoint",
    "target_endpoint": "target.endpoint",
    "name": "job_name",
    "lane": "priority",
    "body": "payload",
    "data": "payload",
    "args": "payload",
    "type": "schedule_type",
    "trigger_type": "schedule_type",
    "timeout": "target.timeout_seconds",
    "retries": "retry_policy.max_retries",
    "retry": "retry_policy",
    "catchup": "catch_up",
    "deadline": "deadline_seconds",
}
_OTHER_INNER_WORDS: Final = {
    ("target", "url"): "target.endpoint",
    ("target", "uri"): "target.endpoint",
    ("target", "address"): "target.endpoint",
    ("target", "handler"): "target.name",
    ("target", "timeout"): "target.timeout_seconds",
    ("target", "body"): "payload",
    ("retry_policy", "max"): "retry_policy.max_retries",
    ("retry_policy", "retries"): "retry_policy.max_retries",
    ("retry_policy", "max_attempts"): "retry_policy.max_retries",
    ("retry_policy", "multiplier"): "retry_policy.backoff_multiplier",
}
_LONGEST_GUESSED: Final = 64


def unknown_field(parent: str, key: str, known: Iterable[str]) -> FieldProblem:
    """The problem of `key` inside the object at `parent`, whose fields are `known`."""
    meant = _meant(parent, key, list(known))
    remedy = f"did you mean {meant}?" if meant else "remove it"
    return FieldProblem(step(parent, key), f"is not a field of {parent or 'a request'}; {remedy}", "unknown")


def _meant(parent: str, key: str, known: list[str]) -> str | None:
    if len(key) > _LONGEST_GUESSED:
        return None
    lower = key.lower()
    close = difflib.get_close_matches(lower, known, n=1, cutoff=0.75)
    if close:
        return close[0]
    if not parent and lower in _OTHER_WORDS:
        return _OTHER_WORDS[lower]
    if (parent, lower) in _OTHER_INNER_WORDS:
        return _OTHER_INNER_WORDS[parent, lower]
    return next((field.path for field in FIELDS if field.name == lower and field.parent != parent), None)
