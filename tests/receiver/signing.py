"""Requests as Tickwheel sends them, for tests of the receiver."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tickwheel.adapters.webhook.headers import header_lines
from tickwheel.domain.ids import run_id_text
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.signing_key import parse_secret
from tickwheel.ports.executor import Work
from tickwheel.receiver import Delivery, verify

SECRET, OTHER_SECRET = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
NOW_S = 1_791_000_042
SCHEDULED_MS = 1_791_000_000_123
BODY = b'{"amount":7}'


def run_id(number: int) -> str:
    return run_id_text(number.to_bytes(16, "big"), SCHEDULED_MS)


def headers(
    number: int = 1,
    token: int = 5,
    *,
    body: bytes = BODY,
    secrets: tuple[str, ...] = (SECRET,),
    sent_s: int = NOW_S,
    tenant_id: str = "default",
    idempotency_key: str | None = None,
) -> dict[str, str]:
    """What the webhook executor sends for an attempt with this token; names in lower case."""
    work = Work(
        slot=0,
        job_id=number.to_bytes(16, "big"),
        scheduled_ms=SCHEDULED_MS,
        fence=token,
        attempt=2,
        max_attempts=4,
        lane=2,
        tenant_id=tenant_id,
        target=Target(type=TargetType.HTTP_WEBHOOK, endpoint="http://h/"),
        payload=body,
        idempotency_key=idempotency_key,
    )
    found = {}
    for line in header_lines(work, sent_s, [parse_secret(secret) for secret in secrets]):
        name, _, value = (line.decode() if isinstance(line, bytes) else line).partition(":")
        found[name.lower()] = value.strip()
    return found


def delivery(number: int = 1, token: int = 5, *, sent_s: int = NOW_S) -> Delivery:
    return verify(headers(number, token, sent_s=sent_s), BODY, SECRET, now_s=sent_s)


def with_token(known: Delivery, token: int) -> Delivery:
    return replace(known, fencing_token=token)


def instant(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
