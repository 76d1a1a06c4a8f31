"""What is kept of an answer holds no secret of its request, though the server shows it."""

import asyncio
import base64
import hashlib

import pytest

from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.adapters.webhook.excerpts import SHORTEST_BYTES, without_secrets
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.outcome import NOTE_LIMIT_BYTES
from tickwheel.domain.sealed import header_context

from .harness import Bench, loopback, make_work
from .sink import running_sink

KEY = SecretKey("k", hashlib.sha256(b"k").digest())
BASIC = base64.b64encode(b"user:pass-word").decode()


@pytest.mark.parametrize(
    ("value", "answer", "kept"),
    [
        ("Bearer s3cret-word", b"got 'Bearer s3cret-word' twice: Bearer s3cret-word", b"got '***' twice: ***"),
        ("Bearer s3cret-word", b"the token s3cret-word is wrong", b"the token *** is wrong"),
        (" Bearer  s3cret-word ", b"[s3cret-word]", b"[***]"),
        (f"Basic {BASIC}", f"{BASIC} is pass-word of user".encode(), b"*** is *** of user"),
        ("s3cret-word", b"it begins with s3cret-w", b"it begins with ***"),
        ("s3cret-word", b"it begins with s3cre", b"it begins with s3cre"),
        ("short", b"short", b"short"),
        ("", b"nothing", b"nothing"),
        ("Basic nonsense!", b"nonsense!", b"***"),
    ],
)
def test_values_are_taken_out(value: str, answer: bytes, kept: bytes) -> None:
    assert without_secrets(answer, [("Authorization", value)]) == kept


def test_what_is_no_secret_stays() -> None:
    headers = [("Content-Type", "application/json"), ("X-Key", "12345678"), ("X-Longer", "1234567890")]
    assert without_secrets(b"application/json 1234567890 12345678", headers) == b"application/json *** ***"
    assert len("s3cre") < SHORTEST_BYTES


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("length", [0, NOTE_LIMIT_BYTES - 50])
def test_a_server_that_shows_the_request_in_its_error_gives_nothing_away(is_sealed: bool, length: int) -> None:
    vault, secret = KeyVault([KEY]), "Bearer s3cret-word-of-some-length"

    async def story() -> bytes:
        async with running_sink() as sink, Bench(loopback(vault=vault)) as bench:
            endpoint = sink.url(f"/echo?status=500&pad={length}")
            context = header_context("default", endpoint, "Authorization")
            value = vault.seal(secret, context) if is_sealed else secret
            work = make_work(1, endpoint, headers=(("Authorization", value),))
            outcome = await bench.run(work)
            assert sink.received[0].headers["authorization"] == secret
            return outcome.excerpt or b""

    excerpt = asyncio.run(story())
    assert b"***" in excerpt
    assert b"s3cret" not in excerpt
