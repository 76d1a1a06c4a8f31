"""What is said of tenants, their secrets and what was promised them; and which hosts are this machine."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from tickwheel.adapters.webhook.excerpts import without_secrets
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.quotas import read_settings
from tickwheel.domain.signing_key import parse_secret, secret_text
from tickwheel.domain.slo import PARTS, parse_objectives
from tickwheel.interfaces.http.framing import fault_of
from tickwheel.interfaces.http.host_check import LocalHostsOnly
from tickwheel.interfaces.http.small_bodies import decode_tree
from tickwheel.interfaces.http.wire import Refusal
from tickwheel.receiver.delivery import parse_secrets

from ..parser import Parser, encoded, to_text
from ..strategies import DIGITS, NOISE, joined, maybe, near, pick
from .http_requests import at_once
from .request_bodies import ANYTHING, WORDS, told, written


def check_tenant_record(data: bytes) -> bool:
    try:
        tree = decode_tree(data)
        settings = read_settings(tree)
    except InvalidRequest as error:
        told(error)
        return False
    except Refusal as refusal:
        assert len(refusal.detail) < 2_000
        return False
    stored = msgspec.json.encode(settings)
    assert msgspec.json.decode(stored, type=type(settings)) == settings
    assert read_settings(msgspec.json.decode(stored)) == settings
    return True


_RECORD: dict[str, Any] = {
    "limits": {"max_jobs": 5, "requests_per_second": 10, "weight": 0.5, "concurrency": 3, "due_per_second": None},
    "egress": {"allow": ["*.example.com", "203.0.113.0/24"], "allow_private": ["10.0.0.0/8"], "proxy": "eu"},
    "disabled": False,
    "note": "two\nlines",
}
_MEMBERS = (
    "max_jobs",
    "max_payload_bytes",
    "requests_burst",
    "weight",
    "allow",
    "allow_private",
    "proxy",
    "note",
    "x",
)


@st.composite
def _records(draw: st.DrawFn) -> bytes:
    record = {name: value for name, value in _RECORD.items() if draw(st.integers(0, 3))}
    for holder in (record, *(dict(one) for one in record.values() if isinstance(one, dict))):
        for name in draw(st.lists(st.sampled_from([*_RECORD, *_MEMBERS]), max_size=1)):
            holder[name] = draw(st.one_of(st.integers(-1, 2**40), st.floats(), ANYTHING))
    return written(draw, record)


def check_signing_secret(data: bytes) -> bool:
    """By both ends: they take the same texts, for the same keys."""
    text = to_text(data)
    keys: list[bytes | None] = []
    for read in (parse_secret, lambda given: parse_secrets(given)[0]):
        try:
            keys.append(read(text))
        except ValueError as error:
            assert len(str(error)) < 200
            keys.append(None)
    assert keys[0] == keys[1]
    if keys[0] is None:
        return False
    assert 24 <= len(keys[0]) <= 64
    assert parse_secret(secret_text(keys[0])) == keys[0]
    return True


def check_objectives(data: bytes) -> bool:
    texts = to_text(data).split("\n")
    try:
        objectives = parse_objectives(texts)
    except ValueError as error:
        assert type(error) is ValueError
        return False
    for objective in objectives:
        assert PARTS // 2 <= objective.target_ppm < PARTS
        assert 0 < objective.bound_ms <= 86_400_000
        assert objective.name
        assert objective.lane is not None or objective.tenant_id is not None
    assert len({objective.name for objective in objectives}) == len(texts)
    return True


_OBJECTIVES = joined(
    pick("HIGH", "LOW", "tenant:a", "DEFAULT/tenant:a=b", "tenant:", "x", "", "/"),
    "=",
    st.one_of(pick("99.9", "50", "49.9999", "99.99999", "100"), DIGITS),
    pick("%@", "@", "%"),
    st.one_of(pick("500", "1", "86400"), DIGITS),
    pick("ms", "s", "m", "h", "d", ""),
)
_NAMES = ("localhost", "127.0.0.1", "[::1]", "a.localhost", "10.0.0.7")


def check_host(data: bytes) -> bool:
    """What a server without tokens answers to; only names that mean this machine whoever resolves them."""
    host, _, origin = data.partition(b"\n")
    headers = [(b"host", host), *([(b"origin", origin)] if origin else [])]
    answered = [_is_answered(headers, method) for method in ("GET", "POST")]
    assert answered[0] or not answered[1]
    if not answered[0] or fault_of([(b"host", host)], "1.1", b"GET", b"/"):
        return False
    name = host.decode("latin-1").lower()
    assert not name.endswith(".example")
    assert name.lstrip("[")[:1].isalnum() or name.startswith(("[:", ":", "."))
    if answered[1] and origin:
        assert origin.partition(b"://")[2].lower() == host.lower()
    return True


def _is_answered(headers: list[tuple[bytes, bytes]], method: str) -> bool:
    reached: list[bool] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(True)

    async def send(message: Any) -> None:
        assert message.get("status", 403) == 403

    at_once(LocalHostsOnly(application)({"type": "http", "method": method, "headers": headers}, send, send))  # type: ignore[arg-type]  # nothing is received
    return bool(reached)


_SENT = (
    ("Authorization", "Bearer s3cret-token-1"),
    ("authorization", "Basic dTpzM2NyZXQtcHc="),
    ("X-Key", "s3cret-key"),
)
_SECRETS = (b"s3cret-token-1", b"dTpzM2NyZXQtcHc=", b"s3cret-pw", b"s3cret-key")


def check_excerpt(data: bytes) -> bool:
    """What a target answers is kept without what it was sent, the cut-off end too."""
    kept = without_secrets(data, _SENT)
    assert not any(secret in kept for secret in _SECRETS)
    assert not any(kept.endswith(secret[:length]) for secret in _SECRETS for length in range(6, len(secret)))
    return kept != data


PARSERS = (
    Parser(
        name="tenant_record",
        check=check_tenant_record,
        grammar=_records,
        examples=(msgspec.json.encode(_RECORD), b"{}", b'{"limits":{"max_jobs":0}}'),
        words=(*WORDS, b'"limits":', b'"allow":["*."]', b"1000000001"),
    ),
    Parser(
        name="signing_secret",
        check=check_signing_secret,
        grammar=lambda: near(
            joined(maybe(pick("whsec_", "whsec_whsec_")), st.binary(min_size=20, max_size=70).map(secret_text))
        ),
        examples=encoded([secret_text(b"k" * 32), secret_text(b"\xff" * 24).removeprefix("whsec_")]),
        words=(b"whsec_", b"=", b"+", b"/", b"-", b"_", b"\n"),
        share=0.5,
    ),
    Parser(
        name="objectives",
        check=check_objectives,
        grammar=lambda: near(st.lists(_OBJECTIVES, min_size=1, max_size=3).map("\n".join)),
        examples=encoded(["HIGH=99.9%@500ms\ntenant:acme=99%@2s", "LOW/tenant:acme=95.5%@5m"]),
        words=(b"=", b"%@", b"tenant:", b"/", b"ms", b"\n"),
        share=0.5,
    ),
    Parser(
        name="local_host",
        check=check_host,
        grammar=lambda: near(
            joined(
                pick(*_NAMES, "evil.example", "localhost.", "127.0.0.1.evil.example", "0x7f.1", "[::1%25a]"),
                maybe(joined(":", DIGITS)),
                maybe(joined("\n", pick("http://", "https://", ""), pick(*_NAMES, "evil.example", "null"))),
            )
        ),
        examples=encoded([f"{name}:8080\nhttp://{name}:8080" for name in _NAMES]),
        words=(b".", b":", b"[", b"]", b"localhost", b".example", b"@", b"%"),
        share=0.5,
    ),
    Parser(
        name="excerpt",
        check=check_excerpt,
        grammar=lambda: near(
            st.lists(st.one_of(NOISE, st.sampled_from(_SECRETS).map(bytes.decode)), max_size=4).map("".join)
        ),
        examples=[b"you sent " + secret for secret in _SECRETS],
        words=(*_SECRETS, *(secret[:7] for secret in _SECRETS), b"***"),
        refuses=False,
        share=0.5,
    ),
)
