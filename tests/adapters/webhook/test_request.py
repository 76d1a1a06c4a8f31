"""What a receiver sees: method, headers, body."""

import asyncio
import base64
import hashlib
import hmac

import msgspec
import pytest

from tickwheel.adapters.webhook.headers import DROPPED_NAMES, HeaderRefused, user_lines
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.executor import Work

from .harness import Bench, error_of, loopback, make_work, run_id
from .sink import Received, running_sink

SECRET = "s3cret-value"


def received(work: Work, settings: WebhookSettings | None = None) -> Received:
    async def scenario() -> Received:
        async with running_sink() as sink, Bench(settings or loopback()) as bench:
            endpoint = sink.url(work.target.endpoint)
            work.target = msgspec.structs.replace(work.target, endpoint=endpoint)
            outcome = await bench.run(work)
            assert outcome.outcome_class is OutcomeClass.SUCCESS, outcome
            assert len(sink.received) == 1
            return sink.received[0]

    return asyncio.run(scenario())


def test_contract_headers_are_sent() -> None:
    work = make_work(5, "/status/200")
    work.tenant_id = "acme"
    work.idempotency_key = "order-17"
    request = received(work)
    timestamp_s = int(request.headers.pop("webhook-timestamp"))
    assert timestamp_s > 1_700_000_000
    agent = request.headers.pop("user-agent")
    assert agent.startswith("tickwheel/")
    assert request.headers.pop("host").startswith("127.0.0.1:")
    assert request.headers == {
        "accept": "*/*",
        "content-type": "application/json",
        "content-length": "7",
        "webhook-id": run_id(5),
        "idempotency-key": run_id(5),
        "x-fencing-token": str((7 << 32) | 5),
        "x-attempt": "2",
        "x-max-attempts": "4",
        "x-scheduled-at": "2026-10-03T04:00:00.123Z",
        "x-job-id": job_id_text((5).to_bytes(16, "big")),
        "x-tenant-id": "acme",
        "x-idempotency-key": "order-17",
    }
    assert (request.method, request.body) == ("POST", b'{"a":1}')


def test_body_is_byte_exact() -> None:
    payload = b' { "b" : 1.0, "a" : "\xc3\xbc\\u0000" }\n'
    assert received(make_work(1, "/status/200", payload=payload)).body == payload


def test_signature_covers_id_timestamp_and_body() -> None:
    keys = (b"n" * 32, b"o" * 32)
    request = received(make_work(1, "/status/200"), loopback(signing_keys=keys))
    signed = f"{request.run_id}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = ["v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    assert request.headers["webhook-signature"].split(" ") == expected


def test_unsigned_without_a_key() -> None:
    assert "webhook-signature" not in received(make_work(1, "/status/200")).headers


@pytest.mark.parametrize(
    ("method", "payload", "sent"),
    [
        ("POST", b"", b""),
        ("PUT", b"[1]", b"[1]"),
        ("PATCH", b"[1]", b"[1]"),
        ("DELETE", b"", b""),
        ("DELETE", b"[1]", b"[1]"),
        ("GET", b"", b""),
        ("GET", b"[1]", b"[1]"),
        ("OPTIONS", b"", b""),
        ("HEAD", b"[1]", b""),
    ],
)
def test_methods_and_bodies(method: str, payload: bytes, sent: bytes) -> None:
    request = received(make_work(1, "/status/200", method=method, payload=payload))
    assert (request.method, request.body) == (method, sent)
    assert ("content-type" in request.headers) == (bool(sent) or method == "HEAD")
    assert ("content-length" in request.headers) == (bool(sent) or method == "POST")


def test_one_handle_serves_every_method_in_turn() -> None:
    methods = ["HEAD", "POST", "GET", "PUT", "HEAD", "DELETE", "POST"]

    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            for slot, method in enumerate(methods):
                outcome = await bench.run(make_work(slot, sink.url("/status/200"), method=method))
                assert outcome.outcome_class is OutcomeClass.SUCCESS, (method, outcome)
            assert [request.method for request in sink.received] == methods
            bodies = [request.body for request in sink.received]
            assert bodies == [b"" if method == "HEAD" else b'{"a":1}' for method in methods]
            assert sink.connection_count == 1

    asyncio.run(scenario())


def test_user_headers_are_sent_and_ours_win() -> None:
    headers = (
        ("Authorization", "Bearer abc"),
        ("Content-Type", "application/vnd.x+json"),
        ("X-Empty", ""),
    )
    forged = tuple((name.title(), "forged") for name in sorted(DROPPED_NAMES))
    request = received(make_work(1, "/status/200", headers=headers + forged))
    assert request.headers["authorization"] == "Bearer abc"
    assert request.headers["content-type"] == "application/vnd.x+json"
    assert request.headers["x-empty"] == ""
    assert "forged" not in request.headers.values()
    assert request.headers["webhook-id"] == run_id(1)
    assert request.headers["content-length"] == "7"


def test_header_values_travel_as_utf8() -> None:
    assert b"X-Name: gr\xc3\xbc\xc3\x9fe" in user_lines((("X-Name", "grüße"),), True)


@pytest.mark.parametrize(
    "header",
    [
        ("X-A\r\nX-B", SECRET),
        ("X-A", f"{SECRET}\r\nX-Injected: 1"),
        ("X-A", f"{SECRET}\n"),
        ("X-A", f"{SECRET}\x00"),
        ("X-A", f"{SECRET}\ud800"),
        ("X A", SECRET),
        ("", SECRET),
        ("X-A:", SECRET),
        ("Ü", SECRET),
    ],
)
def test_header_that_cannot_be_sent_is_refused_by_position(header: tuple[str, str]) -> None:
    with pytest.raises(HeaderRefused, match="header 2 has") as refusal:
        user_lines((("X-Fine", "1"), header), True)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("plain text", "plain text"),
        ("50% off", "50%25%20off"),
        ("grün", "gr%C3%BCn"),
        ("a\r\nX-Injected: 1", "a%0D%0AX-Injected:%201"),
        (" padded", "%20padded"),
        ("\ud800", "?"),
    ],
)
def test_our_free_texts_cannot_break_out_of_their_line(text: str, sent: str) -> None:
    work = make_work(1, "/status/200")
    work.tenant_id = work.idempotency_key = text
    request = received(work)
    assert request.headers["x-tenant-id"] == request.headers["x-idempotency-key"] == sent
    assert "x-injected" not in request.headers


@pytest.mark.parametrize(
    "path",
    ["/status/500", "/status/302", "/close", "/garbage", "/never", "/cut", "/headers"],
)
def test_no_secret_shows_in_any_error(path: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            headers = (("Authorization", f"Bearer {SECRET}"),)
            work = make_work(1, sink.url(f"{path}?key={SECRET}"), headers=headers, timeout_ms=300)
            outcome = await bench.run(work)
            assert error_of(outcome)
            assert SECRET not in error_of(outcome)
            assert "Bearer" not in error_of(outcome)

    asyncio.run(scenario())


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert received(make_work(1, "/status/200")).path == "/status/200"


def test_unsendable_target_fails_alone() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            bench.executor.start(
                [
                    make_work(1, sink.url("/status/200"), headers=(("X-A", f"{SECRET}\n\n."),)),
                    make_work(2, f"http://user:{SECRET}@127.0.0.1/"),
                    make_work(3, sink.url("/status/200"), method="PO\ud800ST"),
                    make_work(4, sink.url("/status/200")),
                ]
            )
            outcomes = await bench.wait_for(1, 2, 3, 4)
            assert [outcome.outcome_class for outcome in outcomes] == [
                OutcomeClass.PERMANENT,
                OutcomeClass.PERMANENT,
                OutcomeClass.PERMANENT,
                OutcomeClass.SUCCESS,
            ]
            assert SECRET not in "".join(outcome.error or "" for outcome in outcomes)
            assert [request.run_id for request in sink.received] == [run_id(4)]

    asyncio.run(scenario())
