"""What can't be brought from here is refused when a rule is set, and not brought if it is set already."""

import asyncio

import pytest
from tests.adapters.smtp.sink import SmtpSink

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import EgressRefused, InvalidRequest
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.messages import compose_trial
from tickwheel.domain.notifications.rule import NotificationRule, Webhook
from tickwheel.ports.registry import NO_TENANT
from tickwheel.wiring.notifying import Couriers
from tickwheel.wiring.secrets import open_secrets

from ..world import Events
from .stage import ACT

MESSAGE = compose_trial("acme", "ops", 0, "")
KEY = "whsec_" + "A" * 43 + "="


def mail(*addresses: str) -> NotificationRule:
    return NotificationRule(events=(Kind.FAILING,), email=addresses)


def post(endpoint: str, secret: str = "") -> NotificationRule:
    return NotificationRule(events=(Kind.FAILING,), webhook=Webhook(endpoint, secret))


async def couriers(settings: Settings, policy: EgressPolicy | None = None) -> Couriers:
    clock = SystemClock()
    secrets = await open_secrets(settings, MemoryStore(clock), clock, Events())
    await secrets.signing.create("acme", "billing", None, act=ACT)
    return Couriers(settings, clock, lambda tenant_id: policy, secrets)


def told(refused: pytest.ExceptionInfo[InvalidRequest]) -> tuple[str, str]:
    [problem] = refused.value.problems
    return problem.field, problem.message


def test_mail_needs_a_mail_server() -> None:
    async def scenario() -> None:
        brings = await couriers(Settings(store="memory:"))
        with pytest.raises(InvalidRequest) as refused:
            brings.check("acme", mail("ops@example.com"))
        assert told(refused) == ("to.email", "this server sends no e-mail; its operator may set smtp_url")
        assert "smtp_url is not set" in (await brings.bring(mail("ops@example.com"), MESSAGE) or "")
        await brings.aclose()
        await brings.aclose()

    asyncio.run(scenario())


def test_mail_goes_to_the_domains_of_the_settings_only() -> None:
    async def scenario() -> None:
        async with SmtpSink() as sink:
            settings = Settings(
                store="memory:",
                smtp_url=f"smtp://127.0.0.1:{sink.port}",
                smtp_from="jobs@example.com",
                smtp_domains=("example.com",),
            )
            brings = await couriers(settings)
            brings.check("acme", mail("ops@EXAMPLE.com"))
            for stranger in ("ops@evil.example", "ops@sub.example.com", "ops@example.com.evil.example"):
                rule = mail("ops@example.com", stranger)
                with pytest.raises(InvalidRequest) as refused:
                    brings.check("acme", rule)
                assert stranger in told(refused)[1]
                assert "addresses of example.com only" in told(refused)[1]
                assert "smtp_domains" in (await brings.bring(rule, MESSAGE) or "")
            assert sink.mails == []
            assert await brings.bring(mail("ops@example.com"), MESSAGE) is None
            assert len(sink.mails) == 1
            await brings.aclose()

    asyncio.run(scenario())


def test_an_endpoint_passes_the_gate_of_its_tenant() -> None:
    async def scenario() -> None:
        brings = await couriers(Settings(store="memory:"))
        brings.check("acme", post("https://ops.example/x"))
        with pytest.raises(EgressRefused):
            brings.check("acme", post("http://127.0.0.1/x"))
        bound = await couriers(Settings(store="memory:"), EgressPolicy(allow=("ops.example",)))
        bound.check("acme", post("https://ops.example/x"))
        with pytest.raises(EgressRefused):
            bound.check("acme", post("https://other.example/x"))
        await brings.aclose()
        await bound.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("tenant_id", ["other", NO_TENANT])
def test_a_signing_secret_is_one_of_the_tenants(tenant_id: str) -> None:
    async def scenario() -> None:
        brings = await couriers(Settings(store="memory:"))
        brings.check("acme", post("https://ops.example/x", "billing"))
        with pytest.raises(InvalidRequest) as refused:
            brings.check(tenant_id, post("https://ops.example/x", "billing"))
        assert told(refused)[0] == "to.webhook.signing_secret"
        await brings.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tenant_id", "secret", "key", "why"),
    [
        ("acme", "", (), "the tenant has no signing secret called default"),
        ("acme", "billing", (), None),
        ("other", "", (KEY,), None),
        (NO_TENANT, "", (), "the server has no webhook_secret"),
        (NO_TENANT, "", (KEY,), None),
    ],
)
def test_messages_that_are_not_signed_are_warned_of(
    tenant_id: str, secret: str, key: tuple[str, ...], why: str | None
) -> None:
    async def scenario() -> None:
        brings = await couriers(Settings(store="memory:", webhook_secret=key))
        told = brings.warnings(tenant_id, post("https://ops.example/hook", secret))
        assert told == ([] if why is None else [f"messages are not signed: {why}"])
        assert brings.warnings(tenant_id, mail("ops@example.com")) == []
        await brings.aclose()

    asyncio.run(scenario())


def test_a_trial_says_where_links_come_from() -> None:
    without, there = compose_trial("acme", "ops", 0, ""), compose_trial("acme", "ops", 0, "https://jobs.example")
    assert "the setting public_url" in without.text
    assert b"the setting public_url" in without.body
    assert "public_url" not in there.text
    assert b"public_url" not in there.body
