"""What a request of Tickwheel says, once it is proved to come from there.

The signature covers the run id, the instant of sending and the body. The run id names the job and the scheduled
instant, so these two are read from it, and headers that say something else are refused. The other headers (token,
attempts, tenant, the job's key) are as trustworthy as the connection: use TLS where others could be in between.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from tickwheel.receiver.clock import machine_s
from tickwheel.receiver.refusals import Reason, UnverifiedDelivery

Headers = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]

TOLERANCE_S: Final = 300
"""How far the sender's clock and the way here may put the timestamp from the receiver's clock."""

_SIGNED: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
_NAMES: Final = frozenset(
    {
        *_SIGNED,
        "x-fencing-token",
        "x-attempt",
        "x-max-attempts",
        "x-scheduled-at",
        "x-job-id",
        "x-tenant-id",
        "x-idempotency-key",
    }
)
_SCHEME: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGITS: Final = {character: digit for digit, character in enumerate(_ALPHABET)}
_RUN_CHARS: Final = 39
_INTEGER_LIMIT: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One attempt of a run, as it arrived here.

    `run_id` is the same for every attempt of a run, `fencing_token` higher for every later one. `attempt` counts
    from 1. `sent_at` is when Tickwheel sent this attempt. `idempotency_key` is the *job's* own, None without one.
    """

    run_id: str
    job_id: str
    tenant_id: str
    fencing_token: int
    attempt: int
    max_attempts: int
    scheduled_at: datetime
    sent_at: datetime
    idempotency_key: str | None
    body: bytes = field(repr=False)


def verify(
    headers: Headers,
    body: bytes,
    secrets: str | Sequence[str],
    now_s: float | None = None,
    tolerance_s: float = TOLERANCE_S,
) -> Delivery:
    """The delivery that these headers and this raw body are; any one of `secrets` (`whsec_…`) may have signed it.

    `headers` is a mapping or pairs; names in any case. `now_s` is in seconds since 1970, by default the machine's
    clock. Raises `UnverifiedDelivery`, and ValueError for a secret that is none.
    """
    keys = parse_secrets(secrets)
    return verify_with_keys(headers, body, keys, machine_s() if now_s is None else now_s, tolerance_s)


def parse_secrets(secrets: str | Sequence[str]) -> tuple[bytes, ...]:
    """The keys in one or several `whsec_<base64>` secrets. Raises ValueError without quoting a secret."""
    texts = [secrets] if isinstance(secrets, str) else secrets
    keys = tuple(map(_parse_secret, texts))
    if not keys:
        raise ValueError("no signing secret was given")
    return keys


def verify_with_keys(
    headers: Headers, body: bytes, keys: Sequence[bytes], now_s: float, tolerance_s: float
) -> Delivery:
    """As `verify`, with what `parse_secrets` gave."""
    found = _wanted(headers)
    run_id, timestamp, signatures = (_required(found, name) for name in _SIGNED)
    sent_s = _integer("webhook-timestamp", timestamp)
    _check_signature(f"{run_id}.{timestamp}.".encode() + body, signatures, keys)
    # After the signature, so that a forger learns nothing about the clock here.
    if sent_s < now_s - tolerance_s:
        raise UnverifiedDelivery(Reason.TOO_OLD, f"sent more than {tolerance_s:g} s ago, by the clock here")
    if sent_s > now_s + tolerance_s:
        raise UnverifiedDelivery(Reason.TOO_NEW, f"sent more than {tolerance_s:g} s ahead of the clock here")
    job_id, scheduled_at = _parts_of(run_id)
    _check_agreement(found, "x-job-id", job_id)
    _check_agreement(found, "x-scheduled-at", _iso_ms(scheduled_at))
    return Delivery(
        run_id=run_id,
        job_id=job_id,
        tenant_id=_decoded(found, "x-tenant-id", _required(found, "x-tenant-id")),
        fencing_token=_integer("x-fencing-token", _required(found, "x-fencing-token")),
        attempt=_integer("x-attempt", _required(found, "x-attempt")),
        max_attempts=_integer("x-max-attempts", _required(found, "x-max-attempts")),
        scheduled_at=scheduled_at,
        sent_at=_instant("webhook-timestamp", sent_s * 1000),
        idempotency_key=(
            _decoded(found, "x-idempotency-key", found["x-idempotency-key"])
            if "x-idempotency-key" in found
            else None
        ),
        body=body,
    )


def _wanted(headers: Headers) -> dict[str, str]:
    """The headers that matter, by lower-case name; printable ASCII, as Tickwheel sends them."""
    found: dict[str, str] = {}
    items: Any = getattr(headers, "items", None)  # also of classes that hold headers and are no Mapping
    pairs: Iterable[tuple[str | bytes, str | bytes]] = items() if callable(items) else cast(Any, headers)
    for raw_name, raw_value in pairs:
        name = (raw_name.decode("latin-1") if isinstance(raw_name, bytes) else raw_name).lower()
        if name not in _NAMES:
            continue
        if name in found:
            raise UnverifiedDelivery(Reason.REPEATED_HEADER, f"{name} is there more than once")
        value = raw_value.decode("latin-1") if isinstance(raw_value, bytes) else raw_value
        if not (value.isascii() and value.isprintable()):
            raise UnverifiedDelivery(Reason.MALFORMED_HEADER, f"{name} is not plain text")
        found[name] = value
    return found


def _required(found: Mapping[str, str], name: str) -> str:
    value = found.get(name)
    if not value:
        raise UnverifiedDelivery(Reason.MISSING_HEADER, f"{name} is missing")
    return value


def _malformed(name: str) -> UnverifiedDelivery:
    return UnverifiedDelivery(Reason.MALFORMED_HEADER, f"{name} is malformed")


def _integer(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(_INTEGER_LIMIT)) or int(text) >= _INTEGER_LIMIT:
        raise _malformed(name)
    return int(text)


def _decoded(found: Mapping[str, str], name: str, value: str) -> str:
    """Free text: what is not plain travels percent-encoded."""
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise _malformed(name) from None


def _instant(name: str, epoch_ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=epoch_ms)
    except OverflowError:
        raise _malformed(name) from None


def _iso_ms(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_signature(message: bytes, signatures: str, keys: Sequence[bytes]) -> None:
    # Texts are compared, not what they decode to: base64 has more than one spelling of the same bytes.
    expected = [b"v1," + b64encode(hmac.digest(key, message, "sha256")) for key in keys]
    given = [text.encode() for text in signatures.split(" ")]
    if not any([hmac.compare_digest(one, other) for one in expected for other in given]):  # noqa: C419 - all are compared
        raise UnverifiedDelivery(Reason.WRONG_SIGNATURE, "no signature is of a secret that is known here")


def _check_agreement(found: Mapping[str, str], name: str, signed: str) -> None:
    if found.get(name, signed) != signed:
        raise UnverifiedDelivery(Reason.CONTRADICTION, f"{name} contradicts webhook-id")


def _parts_of(run_id: str) -> tuple[str, datetime]:
    """The job's printed id (128 bits) and the scheduled instant (64 bits of milliseconds) in a run id."""
    digits = [_DIGITS.get(character, -1) for character in run_id.removeprefix("run_")]
    if not run_id.startswith("run_") or len(digits) != _RUN_CHARS or min(digits) < 0 or digits[0] > 3:
        raise _malformed("webhook-id")
    value = 0
    for digit in digits:
        value = value << 5 | digit
    job = value >> 64
    job_id = "job_" + "".join(_ALPHABET[job >> shift & 31] for shift in range(125, -1, -5))
    scheduled_ms = int.from_bytes((value & (1 << 64) - 1).to_bytes(8, "big"), "big", signed=True)
    return job_id, _instant("webhook-id", scheduled_ms)


def _parse_secret(text: str) -> bytes:
    try:
        key = b64decode(text.removeprefix(_SCHEME), validate=True)
    except ValueError:
        raise ValueError(f"a signing secret is {_SCHEME} and base64 text") from None
    if len(key) not in _KEY_BYTES:
        raise ValueError(f"a signing secret holds {_KEY_BYTES.start} to {_KEY_BYTES.stop - 1} bytes")
    return key
