"""Certificates are checked, against the name in the URL and not against the address that is called.

The receiver's certificate in `tls/` is signed by its own key, for `hook.example`; it proves nothing to anybody.
"""

import asyncio
import ssl
from pathlib import Path

import pytest

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .harness import Bench, error_of, loopback, make_work
from .sink import running_sink

TLS = Path(__file__).parent / "tls"
CERTIFICATE = TLS / "hook.example.cert.pem"


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, TLS / "hook.example.key.pem")
    return context


def outcome_of(host: str, settings: WebhookSettings) -> tuple[Outcome, int]:
    async def scenario() -> tuple[Outcome, int]:
        async with running_sink(tls=server_context()) as sink:
            bench = Bench(settings, resolve=lambda _host: ["127.0.0.1"])
            async with bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", host)))
            return outcome, len(sink.received)

    return asyncio.run(scenario())


def test_trusted_certificate_is_accepted() -> None:
    outcome, received_count = outcome_of("hook.example", loopback(ca_file=str(CERTIFICATE)))
    assert (outcome.outcome_class, received_count) == (OutcomeClass.SUCCESS, 1)


@pytest.mark.parametrize(
    ("host", "settings"),
    [("hook.example", loopback()), ("other.example", loopback(ca_file=str(CERTIFICATE)))],
    ids=["unknown issuer", "another name"],
)
def test_untrusted_certificate_gets_no_request(host: str, settings: WebhookSettings) -> None:
    outcome, received_count = outcome_of(host, settings)
    assert outcome.outcome_class is OutcomeClass.RETRYABLE
    assert outcome.error == "the TLS certificate could not be verified"
    assert received_count == 0


def test_plain_server_fails_the_handshake() -> None:
    async def talk_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async def scenario() -> None:
        async with await asyncio.start_server(talk_plainly, "127.0.0.1", 0) as server, Bench() as bench:
            port = server.sockets[0].getsockname()[1]
            outcome = await bench.run(make_work(1, f"https://127.0.0.1:{port}/"))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.error == "the TLS handshake failed"

    asyncio.run(scenario())


def test_missing_bundle_is_named() -> None:
    outcome, _ = outcome_of("hook.example", loopback(ca_file="/nowhere/bundle.pem"))
    assert outcome.outcome_class is OutcomeClass.RETRYABLE
    assert "setting ca_file" in error_of(outcome)


def test_bundle_named_by_the_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert find_ca_file() == str(CERTIFICATE)
    assert WebhookSettings().ca_file == str(CERTIFICATE)


def test_settings_do_not_show_their_keys() -> None:
    assert "kkkk" not in repr(loopback(signing_keys=(b"k" * 32,)))
