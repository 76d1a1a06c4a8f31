"""What tokens, sealed texts and signed deliveries are read from."""

import asyncio
import json
from base64 import b64decode, urlsafe_b64encode
from typing import Any

import jwt
from hypothesis import strategies as st

from tickwheel.adapters.jwt.key_sets import parse_key_set
from tickwheel.adapters.jwt.settings import JwtSettings
from tickwheel.adapters.jwt.verifier import JwtVerifier
from tickwheel.adapters.vault.vault import KeyVault
from tickwheel.adapters.webhook.signature import sign
from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.api_keys import key_text, parse_key
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.trace_context import parse_trace_context
from tickwheel.ports.tokens import TokenRefused
from tickwheel.ports.vault import CannotOpen
from tickwheel.receiver import UnverifiedDelivery, verify
from tickwheel.testing.virtual_clock import VirtualClock

from ..parser import Parser, encoded, to_bytes, to_text
from ..strategies import DIGITS, NOISE, joined, near, pick
from .names import JOB
from .request_bodies import ANYTHING

_NOW_S = 1_790_000_000
_TRACE_ID, _SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_JWT_SECRET = "0123456789abcdef0123456789abcdef"
_VERIFIER = JwtVerifier(JwtSettings(audience="tickwheel", secret=_JWT_SECRET), VirtualClock())


def check_trace_context(data: bytes) -> bool:
    traceparent, _, tracestate = data.partition(b"\n")
    found = parse_trace_context(traceparent, tracestate)
    if found is None:
        return False
    assert len(found.trace_id) == 32
    assert len(found.span_id) == 16
    assert len(found.state) <= 512
    return True


def check_api_key(data: bytes) -> bool:
    text = to_text(data)
    found = parse_key(text)
    assert found is None or key_text(*found) == text
    return found is not None


def check_jwt(data: bytes) -> bool:
    """The text as it is, and as claims that an issuer has signed."""
    return _accepts(to_text(data)) or _accepts(_signed(data))


def _signed(claims: bytes) -> str:
    header = urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
    message = header + b"." + urlsafe_b64encode(claims).rstrip(b"=")
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        message, _JWT_SECRET.encode()
    )
    return (message + b"." + urlsafe_b64encode(signature).rstrip(b"=")).decode()


def _accepts(token: str) -> bool:
    try:
        token.encode("ascii")
    except UnicodeEncodeError:
        return False  # refused before it comes here
    verifying = _VERIFIER.verify(token, _NOW_S * 1000)
    try:
        verifying.send(None)  # with a shared secret nothing is awaited
    except StopIteration as done:
        verified = done.value
    except TokenRefused as refusal:
        assert len(str(refusal)) < 500
        return False
    else:
        raise AssertionError("it waits for something")
    assert verified.principal.name.startswith("jwt:")
    assert verified.principal.scopes
    assert verified.until_ms > _NOW_S * 1000
    return True


_CLAIMS = {"sub": "ann", "aud": "tickwheel", "exp": _NOW_S + 60, "role": "admin", "tenant_id": "t1"}


@st.composite
def _claims(draw: st.DrawFn) -> str:
    claims: dict[str, Any] = dict(_CLAIMS)
    for name in draw(st.lists(st.sampled_from([*_CLAIMS, "nbf", "iat", "iss", "jti"]), max_size=3)):
        claims[name] = draw(
            st.one_of(ANYTHING, st.floats(), st.integers(0, 2**41), pick("operator", "viewer", "*"))
        )
    return json.dumps(claims)


def check_key_set(data: bytes) -> bool:
    try:
        keys = parse_key_set(data)
    except ValueError:
        return False
    assert all(key.algorithm in ("RS256", "ES256", "EdDSA") for key in keys)
    return bool(keys)


_EC = {
    "kty": "EC",
    "crv": "P-256",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    "kid": "1",
}
_OKP = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "2"}
_RSA = {"kty": "RSA", "n": urlsafe_b64encode(b"\xc1" * 256).rstrip(b"=").decode(), "e": "AQAB", "kid": "3"}


@st.composite
def _key_sets(draw: st.DrawFn) -> bytes:
    keys: list[Any] = []
    for template in draw(st.lists(st.sampled_from([_EC, _OKP, _RSA, {}]), max_size=3)):
        key: dict[str, Any] = dict(template)
        for name in draw(
            st.lists(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "use", "alg", "kid", "d"]), max_size=2)
        ):
            key[name] = draw(
                st.one_of(ANYTHING, pick("AQAB", "AAAA", "", "sig", "enc", "RS256", "HS256", "oct", "RSA", "EC"))
            )
        keys.append(key)
    return json.dumps({"keys": draw(st.one_of(st.just(keys), ANYTHING)) if draw(st.booleans()) else keys}).encode()


_VAULT = KeyVault([SecretKey("k1", b"1" * 32), SecretKey("k0", b"0" * 32)])
_SEALED = _VAULT.seal("hidden", "context")


def check_sealed(data: bytes) -> bool:
    text, _, context = to_text(data).partition("\n")
    try:
        text.encode(), context.encode()
    except UnicodeEncodeError:
        return False  # no text that a request or a database holds
    try:
        opened = _VAULT.open(text, context)
    except CannotOpen as error:
        assert len(str(error)) < 300
        return False
    if text == _SEALED:
        assert (opened, context) == ("hidden", "context")
    sealed = _VAULT.seal(text, context)
    assert _VAULT.open(sealed, context) == text
    return True


_KEY = b"0123456789abcdef01234567"
_WHSEC = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
_RUN = run_id_text(JOB, _NOW_S * 1000)
_SIGNED = f"webhook-signature: {sign([_KEY], _RUN, _NOW_S, b'{}')}"
_REST = (
    f"x-fencing-token: 7\nx-attempt: 1\nx-max-attempts: 4\nx-scheduled-at: 2026-09-21T14:13:20.000Z\n"
    f"x-job-id: {job_id_text(JOB)}\nx-tenant-id: default\nx-idempotency-key: a%20b"
)
_DELIVERY = f"webhook-id: {_RUN}\nwebhook-timestamp: {_NOW_S}\n{_SIGNED}\n{_REST}\n\n{{}}"


def check_delivery(data: bytes) -> bool:
    """As a sender of bytes has it, and the same with a right signature, as one who knows the secret."""
    head, _, body = data.partition(b"\n\n")
    headers = [line.partition(b":")[::2] for line in head.split(b"\n")]
    pairs = [(name.strip(), value.strip(b" ")) for name, value in headers]
    first = _verified(pairs, body)
    named = {name.lower(): value for name, value in pairs}
    run_id, sent = (named.get(name, b"").decode("latin-1") for name in (b"webhook-id", b"webhook-timestamp"))
    signature = sign_text(run_id, sent, body)
    signed = [(name, value) for name, value in pairs if name.lower() != b"webhook-signature"]
    return _verified([*signed, (b"webhook-signature", signature)], body) or first


def sign_text(run_id: str, sent: str, body: bytes) -> bytes:
    """The signature over whatever the headers say."""
    import hmac
    from base64 import b64encode

    message = f"{run_id}.{sent}.".encode() + body
    return b"v1," + b64encode(hmac.digest(b64decode(_WHSEC.removeprefix("whsec_")), message, "sha256"))


def _verified(pairs: list[tuple[bytes, bytes]], body: bytes) -> bool:
    try:
        delivery = verify(pairs, body, _WHSEC, now_s=_NOW_S)
    except UnverifiedDelivery as refusal:
        assert len(str(refusal)) < 300
        return False
    assert delivery.run_id.startswith("run_")
    assert delivery.job_id.startswith("job_")
    assert delivery.attempt >= 0
    assert delivery.body == body
    assert repr(delivery)
    return True


_HEADER_LINES = st.lists(
    joined(
        pick(
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "x-fencing-token",
            "X-Attempt",
            "x-scheduled-at",
            "x-job-id",
        )
        | pick("x-tenant-id", "x-idempotency-key", "x-max-attempts"),
        ": ",
        st.one_of(
            DIGITS,
            NOISE,
            pick(_RUN, str(_NOW_S), "v1,", "v1,AAAA v1,BBBB", "2026-09-21T14:13:20.000Z", "%ff", "%00"),
        ),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def _deliveries(draw: st.DrawFn) -> str:
    lines = _DELIVERY.partition("\n\n")[0].split("\n")
    for line in draw(_HEADER_LINES):
        name = line.partition(":")[0].lower()
        if draw(st.integers(0, 5)):
            lines = [one for one in lines if not one.startswith(name)]
        lines.append(line)
    return "\n".join(lines) + "\n\n" + draw(st.one_of(pick("{}", ""), NOISE))


def _close() -> None:
    asyncio.set_event_loop(None)


PARSERS = (
    Parser(
        name="api_key",
        check=check_api_key,
        grammar=lambda: near(
            joined(
                "tw_",
                st.text(pick(*"abcdefghjk019"), min_size=11, max_size=13),
                "_",
                st.text(pick(*"az09"), min_size=31, max_size=33),
            )
        ),
        examples=encoded([key_text("a" * 12, "b" * 32), key_text("0123456789ab", "z9" * 16)]),
        words=(b"tw_", b"_", b"i", b"A"),
        share=0.5,
    ),
    Parser(
        name="jwt",
        check=check_jwt,
        grammar=lambda: st.one_of(near(_claims()), near(_claims().map(lambda text: _signed(text.encode())))),
        examples=[json.dumps(_CLAIMS).encode(), to_bytes(_signed(json.dumps(_CLAIMS).encode()))],
        words=(
            b'"exp":',
            b"null",
            b"1e400",
            b"NaN",
            b"-1",
            b'"aud":[',
            b".",
            b"..",
            b"eyJhbGciOiJub25lIn0",
            b"=",
            b"\\ud800",
            b"[]",
            b"{}",
        ),
    ),
    Parser(
        name="key_set",
        check=check_key_set,
        grammar=_key_sets,
        examples=[json.dumps({"keys": [_EC, _OKP, _RSA]}).encode(), b'{"keys":[]}'],
        words=(b'"kty":', b"null", b"1", b'""', b"AQAB", b"[]", b"{}", b"\\ud800", b"=", b"NaN"),
        share=0.5,
    ),
    Parser(
        name="sealed_text",
        check=check_sealed,
        grammar=lambda: near(
            joined(
                pick(_SEALED, "tw-sealed:k1:", "tw-sealed:", "tw-sealed:k2:AAAA", "plain"),
                pick("", "=", "A"),
                "\n",
                pick("context", "other", ""),
            )
        ),
        examples=encoded([f"{_SEALED}\ncontext", "plain\ncontext", f"{_SEALED}\nother"]),
        words=(b"tw-sealed:", b"k1", b"k0", b":", b"=", b"-", b"_"),
        share=0.5,
    ),
    Parser(
        name="trace_context",
        check=check_trace_context,
        grammar=lambda: near(
            joined(
                pick("00", "01", "ff"),
                "-",
                pick(_TRACE_ID, "0" * 32),
                "-",
                pick(_SPAN_ID, "x"),
                "-",
                pick("01", "00"),
            )
        ),
        examples=encoded([f"00-{_TRACE_ID}-{_SPAN_ID}-01", f"00-{_TRACE_ID}-{_SPAN_ID}-00\na=b,c=d"]),
        words=(b"-", b"00", b"ff", b"\n", b"=", b","),
        share=0.5,
    ),
    Parser(
        name="delivery",
        check=check_delivery,
        grammar=lambda: near(_deliveries()),
        examples=encoded([_DELIVERY]),
        words=(b"\n", b": ", b"v1,", b" ", b"%", b"run_", b"webhook-id: ", b"x-attempt: "),
    ),
)
