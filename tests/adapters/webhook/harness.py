"""An executor under test with its reports collected, and works that need no store."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from ipaddress import ip_network
from typing import Any

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.lookup import Resolve
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.ids import run_id_text
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import Outcome
from tickwheel.ports.executor import Work

Run = Callable[[Coroutine[object, object, None]], None]
SCHEDULED_MS = 1_791_000_000_123


def run_id(slot: int) -> str:
    """The printed id of the run that `make_work` makes for this slot."""
    return run_id_text(slot.to_bytes(16, "big"), SCHEDULED_MS)


def make_work(
    slot: int,
    endpoint: str,
    *,
    lane: int = 2,
    payload: bytes = b'{"a":1}',
    tenant_id: str = "default",
    **target: object,
) -> Work:
    arguments: dict[str, object] = {"method": "POST", "timeout_ms": 20_000, "headers": (), **target}
    return Work(
        slot=slot,
        job_id=slot.to_bytes(16, "big"),
        scheduled_ms=SCHEDULED_MS,
        fence=(7 << 32) | slot,
        attempt=2,
        max_attempts=4,
        lane=lane,
        tenant_id=tenant_id,
        target=Target(type=TargetType.HTTP_WEBHOOK, endpoint=endpoint, **arguments),  # type: ignore[arg-type]  # free keywords
        payload=payload,
        idempotency_key=None,
    )


class Bench:
    """Starts works and waits for their outcomes; a slot reported twice fails the test."""

    def __init__(self, settings: WebhookSettings | None = None, resolve: Resolve | None = None) -> None:
        settings = settings or WebhookSettings(addresses=AddressPolicy(allow_loopback=True))
        arguments: dict[str, Any] = {} if resolve is None else {"resolve": resolve}
        self.outcomes: dict[int, Outcome] = {}
        self.report_sizes: list[int] = []
        self._changed = asyncio.Event()
        self.executor = WebhookExecutor(self.report, SystemClock(), settings, **arguments)

    def report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        self.report_sizes.append(len(slots))
        for slot, outcome in zip(slots, outcomes, strict=True):
            assert slot not in self.outcomes, f"slot {slot} was reported twice"
            self.outcomes[slot] = outcome
        self._changed.set()

    async def wait_for(self, *slots: int) -> list[Outcome]:
        async with asyncio.timeout(40):
            while not self.outcomes.keys() >= set(slots):
                self._changed.clear()
                await self._changed.wait()
        return [self.outcomes[slot] for slot in slots]

    async def run(self, work: Work) -> Outcome:
        self.executor.start([work])
        return (await self.wait_for(work.slot))[0]

    async def __aenter__(self) -> "Bench":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.aclose(0)


def loopback(**changes: object) -> WebhookSettings:
    return WebhookSettings(addresses=AddressPolicy(allow_loopback=True), **changes)  # type: ignore[arg-type]  # free keywords


def allowing(*networks: str) -> WebhookSettings:
    return WebhookSettings(addresses=AddressPolicy(allow_private=[ip_network(text) for text in networks]))


def error_of(outcome: Outcome) -> str:
    """What a failed attempt says about itself."""
    assert outcome.error is not None, outcome
    return outcome.error


async def wait_until(predicate: Callable[[], object], why: str) -> None:
    try:
        async with asyncio.timeout(30):
            while not predicate():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited 30 s for {why}") from None
