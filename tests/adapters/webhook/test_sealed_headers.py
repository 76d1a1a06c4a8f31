"""Sealed headers are opened for the request and for nothing else; signatures by the keys of the tenant."""

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.domain.sealed import header_context
from tickwheel.domain.signing_key import parse_secret
from tickwheel.ports.executor import Work
from tickwheel.ports.vault import CannotSign

from .harness import Bench, error_of, loopback, make_work
from .sink import Received, running_sink

OLD = SecretKey("old", hashlib.sha256(b"old").digest())
NEW = SecretKey("new", hashlib.sha256(b"new").digest())
SECRET = "Bearer s3cret-word"
FIRST = "whsec_bmV2ZXIgdXNlIHRoaXMga2V5IGluIHByb2R1Y3Rpb24="
SECOND = "whsec_bmVpdGhlciB1c2UgdGhpcyBvbmUgaW4gcHJvZHVjdGlvbg=="
OTHER = "whsec_c29tZWJvZHkgZWxzZSdzIGtleSwgbm90IG9uZSBvZiBvdXJz"
BODY = b'{"a":1}'


def sent(
    settings: WebhookSettings, *, sealed_for: str | None = None, signing_secret: str = "", tenant_id: str = "acme"
) -> tuple[Outcome, list[Received], Work]:
    """The end of one attempt, whose header was sealed for the endpoint itself or for another one."""

    async def story() -> tuple[Outcome, list[Received], Work]:
        async with running_sink() as sink, Bench(settings) as bench:
            endpoint = sink.url("/status/200")
            context = header_context("acme", sealed_for or endpoint, "authorization")
            value = KeyVault([OLD]).seal(SECRET, context)
            headers = (("Authorization", value), ("X-Plain", "as it is"))
            work = make_work(1, endpoint, headers=headers, payload=BODY, signing_secret=signing_secret)
            work = msgspec.structs.replace(work, tenant_id=tenant_id)
            return await bench.run(work), sink.received, work

    return asyncio.run(story())


def test_the_target_gets_the_value_in_the_clear() -> None:
    outcome, received, work = sent(loopback(vault=KeyVault([NEW, OLD])))
    assert outcome.outcome_class is OutcomeClass.SUCCESS
    assert received[0].headers["authorization"] == SECRET
    assert received[0].headers["x-plain"] == "as it is"
    assert SECRET not in f"{work} {work.target.headers}"


@pytest.mark.parametrize("vault", [KeyVault([NEW]), KeyVault(), None])
def test_without_the_key_the_attempt_may_be_tried_again_and_nothing_is_sent(vault: KeyVault | None) -> None:
    outcome, received, _ = sent(loopback() if vault is None else loopback(vault=vault))
    assert outcome.outcome_class is OutcomeClass.RETRYABLE
    assert outcome.unsent
    assert "the header Authorization can't be opened: it is sealed under the key 'old'" in error_of(outcome)
    assert received == []


@pytest.mark.pitfall(103)
def test_a_value_that_was_sealed_for_another_place_or_tenant_is_not_sent() -> None:
    settings = loopback(vault=KeyVault([OLD]))
    for outcome, received, _ in (
        sent(settings, sealed_for="https://billing.example"),
        sent(settings, tenant_id="other"),
    ):
        assert outcome.outcome_class is OutcomeClass.RETRYABLE
        assert "not sealed for this use" in error_of(outcome)
        assert SECRET not in error_of(outcome)
        assert received == []


def keys_for(tenant_id: str, name: str) -> Sequence[bytes]:
    assert tenant_id == "acme"
    if name == "none":
        raise CannotSign("there is no signing secret 'none' of the tenant")
    return [parse_secret(SECOND), parse_secret(FIRST)] if name == "billing" else []


def test_two_keys_of_a_named_secret_sign_so_that_receivers_verify_with_either() -> None:
    settings = loopback(vault=KeyVault([OLD]), keys_for=keys_for, signing_keys=[parse_secret(OTHER)])
    outcome, received, _ = sent(settings, signing_secret="billing")
    assert outcome.outcome_class is OutcomeClass.SUCCESS
    for secret in (FIRST, SECOND):
        assert Webhook(secret).verify(received[0].body, received[0].headers) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(received[0].body, received[0].headers)


def test_without_keys_nothing_is_signed() -> None:
    _, received, _ = sent(loopback(vault=KeyVault([OLD]), keys_for=keys_for))
    assert "webhook-signature" not in received[0].headers


@pytest.mark.parametrize("with_keys", [True, False])
def test_an_unknown_secret_leaves_nothing_unsigned(with_keys: bool) -> None:
    vault = KeyVault([OLD])
    settings = loopback(vault=vault, keys_for=keys_for) if with_keys else loopback(vault=vault)
    outcome, received, _ = sent(settings, signing_secret="none")
    assert (outcome.outcome_class, outcome.unsent, received) == (OutcomeClass.RETRYABLE, True, [])
    assert "signing secret 'none'" in error_of(outcome)


def test_settings_show_no_keys() -> None:
    settings = loopback(vault=KeyVault([OLD]), keys_for=keys_for, signing_keys=[parse_secret(OTHER)])
    assert repr(parse_secret(OTHER)) not in repr(settings)
