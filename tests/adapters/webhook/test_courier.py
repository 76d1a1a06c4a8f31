"""Messages of notifications go out like any webhook: signed, bounded, and never to where they may not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook as Verifier

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.courier import WebhookCourier
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.notifications.messages import Message, compose_trial
from tickwheel.domain.notifications.rule import Webhook
from tickwheel.domain.signing_key import secret_text
from tickwheel.ports.vault import CannotSign

from .sink import Sink, running_sink

KEYS = {("acme", ""): b"1" * 32, ("acme", "billing"): b"2" * 32}


def keys_for(tenant_id: str, name: str) -> Sequence[bytes]:
    if (tenant_id, name) not in KEYS:
        raise CannotSign(f"there is no signing secret {name!r} of the tenant")
    return [KEYS[tenant_id, name]]


async def bring(
    endpoint: str, secret: str = "", message: Message | None = None, *, loopback: bool = True, **fields: Any
) -> str | None:
    addresses = AddressPolicy(allow_loopback=loopback)
    courier = WebhookCourier(SystemClock(), WebhookSettings(addresses=addresses, keys_for=keys_for, **fields))
    try:
        return await courier.bring(Webhook(endpoint, secret), message or trial())
    finally:
        await courier.aclose()


def trial(tenant_id: str = "acme") -> Message:
    return compose_trial(tenant_id, "ops", 1_791_000_000_000, "https://jobs.example")


async def brought(secret: str = "", message: Message | None = None) -> Sink:
    async with running_sink() as sink:
        assert await bring(sink.url("/status/200"), secret, message) is None
    return sink


@pytest.mark.parametrize("secret", ["", "billing"])
def test_a_message_is_signed_with_the_tenants_secret(secret: str) -> None:
    async def scenario() -> None:
        [received] = (await brought(secret)).received
        verifier = Verifier(secret_text(KEYS["acme", secret]))
        verified = verifier.verify(received.body, received.headers)
        assert verified == msgspec.json.decode(received.body)
        assert verified["type"] == "notification.trial"
        assert received.headers["webhook-id"] == trial().id
        with pytest.raises(Exception, match="No matching signature"):
            Verifier(secret_text(b"3" * 32)).verify(received.body, received.headers)

    asyncio.run(scenario())


def test_nothing_is_said_of_a_run() -> None:
    async def scenario() -> None:
        [received] = (await brought()).received
        assert received.method == "POST"
        assert received.headers["content-type"] == "application/json"
        assert not [name for name in received.headers if name.startswith("x-")]

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/status/404", "/status/500", "/status/302"])
def test_another_answer_is_told(path: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            error = await bring(sink.url(path))
        assert error is not None
        assert path[-3:] in error
        assert len(sink.received) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:1/x",
        "http://[::1]/x",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://0/",
        "http://2130706433/",
        "http://0x7f.1/",
        "ftp://ops.example/",
        "https://ops.example:25/",
    ],
)
def test_hostile_addresses_get_nothing(endpoint: str) -> None:
    async def scenario() -> None:
        error = await bring(endpoint, loopback=False)
        assert error
        assert "refused" not in error or "connection" not in error, "it was not even tried"

    asyncio.run(scenario())


def test_the_tenants_egress_policy_holds() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            only = EgressPolicy(allow=("ops.example",))
            error = await bring(sink.url("/status/200"), policy_of=lambda tenant_id: only)
        assert error is not None
        assert sink.received == []

    asyncio.run(scenario())


def test_an_unknown_secret_sends_nothing_unsigned() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            error = await bring(sink.url("/status/200"), "gone")
        assert error is not None
        assert "signing secret 'gone'" in error
        assert sink.received == []

    asyncio.run(scenario())


def test_who_waits_no_more_breaks_the_request_off() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            settings = WebhookSettings(addresses=AddressPolicy(allow_loopback=True))
            courier = WebhookCourier(SystemClock(), settings)
            bringing = asyncio.ensure_future(courier.bring(Webhook(sink.url("/gate")), trial()))
            await sink.arrived.wait()
            bringing.cancel()
            await asyncio.gather(bringing, return_exceptions=True)
            sink.gate.set()
            assert await courier.bring(Webhook(sink.url("/status/200")), trial()) is None
            await courier.aclose()

    asyncio.run(scenario())
