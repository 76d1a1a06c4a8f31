"""Posts messages of notifications, through the same gates as all webhooks, signed as Standard Webhooks are."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final

from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.headers import user_lines
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.adapters.webhook.signature import sign
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.domain.notifications.messages import Message
from tickwheel.domain.notifications.rule import Webhook
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Work
from tickwheel.ports.vault import NO_VAULT, Vault

TIMEOUT_MS: Final = 10_000


class _Posting(Work, gc=False):
    """A message takes the place of a run."""

    message_id: str = ""


class WebhookCourier:
    """Made and used on the event loop's thread."""

    def __init__(self, clock: Clock, settings: WebhookSettings) -> None:
        self._executor = WebhookExecutor(self._ended, clock, settings, lines=_lines)
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self._slots = count()

    async def bring(self, webhook: Webhook, message: Message) -> str | None:
        """None: a 2xx came. Else why not."""
        slot = next(self._slots)
        self._waiting[slot] = asyncio.get_running_loop().create_future()
        self._executor.start([_posting(slot, webhook, message)])
        try:
            outcome = await self._waiting[slot]
        finally:
            del self._waiting[slot]
            self._executor.cancel([slot])
        if outcome.outcome_class is OutcomeClass.SUCCESS:
            return None
        return outcome.error or f"HTTP {outcome.http_status}"

    async def aclose(self) -> None:
        """What is under way is broken off."""
        await self._executor.aclose(0)

    def _ended(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        for slot, outcome in zip(slots, outcomes, strict=True):
            waiting = self._waiting.get(slot)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)


def _posting(slot: int, webhook: Webhook, message: Message) -> _Posting:
    return _Posting(
        slot=slot,
        job_id=bytes(16),
        scheduled_ms=0,
        fence=0,
        attempt=1,
        max_attempts=1,
        lane=Lane.DEFAULT,
        tenant_id=message.tenant_id,
        target=Target(
            TargetType.HTTP_WEBHOOK,
            webhook.endpoint,
            timeout_ms=TIMEOUT_MS,
            signing_secret=webhook.signing_secret,
        ),
        payload=message.body,
        idempotency_key=None,
        message_id=message.id,
    )


def _lines(work: Work, timestamp_s: int, keys: Sequence[bytes], vault: Vault = NO_VAULT) -> list[bytes | str]:
    """Without what is said of a run."""
    message_id = work.message_id if isinstance(work, _Posting) else work.run_id
    lines: list[bytes | str] = [
        *user_lines((), has_body=True),
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp_s}",
        f"Idempotency-Key: {message_id}",
    ]
    if keys:
        lines.append(f"webhook-signature: {sign(keys, message_id, timestamp_s, work.payload)}")
    return lines
