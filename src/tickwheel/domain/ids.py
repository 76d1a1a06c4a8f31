"""Job and run ids: layout, print, parse.

A job id is 128 bits: 48 bits creation ms, 16 bits shard, 16 bits home (the due day at creation, in days since
the epoch; 0 = recurring or beyond the daily horizon) and 48 random bits. It routes itself: partition and
shard are read off the id, so no look-up table is needed, and ids made later sort later.

Printed: `job_` + 26 Crockford base32 characters; a run is `run_` + 39 characters over the job id and the
64-bit scheduled instant, so a run id names its job too.
"""

from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
JOB_PREFIX: Final = "job_"
RUN_PREFIX: Final = "run_"
JOB_CHARS: Final = 26
RUN_CHARS: Final = 39
RANDOM_BYTES: Final = 6
DAY_MS: Final = 86_400_000
HOME_HORIZON_MS: Final = 62 * DAY_MS
SHARD_COUNT: Final = 256

_PAIRS: Final = [a + b for a in ALPHABET for b in ALPHABET]
_LIMB: Final = (1 << 60) - 1
_VALUES: Final = {c: i for i, c in enumerate(ALPHABET)}


class IdError(ValueError):
    """The text is not an id of this kind."""


def make_job_id(*, created_ms: int, shard: int, due_ms: int | None, random48: bytes) -> bytes:
    """16 raw bytes; `due_ms` None for recurring jobs, `random48` exactly 6 bytes."""
    home = 0
    if due_ms is not None and due_ms - created_ms < HOME_HORIZON_MS:
        home = max(1, due_ms // DAY_MS) & 0xFFFF
    return (created_ms << 32 | shard << 16 | home).to_bytes(10, "big") + random48


def shard_of(job_id: bytes) -> int:
    """The shard written into the id."""
    return int.from_bytes(job_id[6:8], "big")


def created_ms_of(job_id: bytes) -> int:
    """The creation instant written into the id."""
    return int.from_bytes(job_id[:6], "big")


def job_id_text(job_id: bytes) -> str:
    """`job_` + 26 characters."""
    value = int.from_bytes(job_id, "big")
    return JOB_PREFIX + _PAIRS[value >> 120] + _twelve(value >> 60 & _LIMB) + _twelve(value & _LIMB)


def run_id_text(job_id: bytes, scheduled_ms: int) -> str:
    """`run_` + 39 characters; two printed runs of a job sort by their instants."""
    value = int.from_bytes(job_id, "big") << 64 | scheduled_ms
    head = value >> 180
    limbs = _twelve(value >> 120 & _LIMB) + _twelve(value >> 60 & _LIMB) + _twelve(value & _LIMB)
    return RUN_PREFIX + ALPHABET[head >> 10] + _PAIRS[head & 1023] + limbs


def parse_job_id(text: str) -> bytes:
    """Raw bytes of a printed job id; raises `IdError`."""
    return _decode(text, JOB_PREFIX, JOB_CHARS, 16)


def parse_run_id(text: str) -> tuple[bytes, int]:
    """(raw job id, scheduled_ms) of a printed run id; raises `IdError`."""
    raw = _decode(text, RUN_PREFIX, RUN_CHARS, 24)
    if raw[16] >> 7:  # no instant of ours is so large, and stores count with a sign
        raise IdError("the id is out of range")
    return raw[:16], int.from_bytes(raw[16:], "big")


def _twelve(limb: int) -> str:
    """60 bits as 12 characters; small integers, because shifting large ones is what takes the time."""
    return (
        _PAIRS[limb >> 50]
        + _PAIRS[limb >> 40 & 1023]
        + _PAIRS[limb >> 30 & 1023]
        + _PAIRS[limb >> 20 & 1023]
        + _PAIRS[limb >> 10 & 1023]
        + _PAIRS[limb & 1023]
    )


def _decode(text: str, prefix: str, chars: int, size_bytes: int) -> bytes:
    body = text[len(prefix) :]
    if not text.startswith(prefix) or len(body) != chars:
        raise IdError(f"expected {prefix} and {chars} characters")
    value = 0
    for char in body:
        digit = _VALUES.get(char)
        if digit is None:
            raise IdError(f"character {char!r} is not in the id alphabet")
        value = value << 5 | digit
    if value >> (8 * size_bytes):
        raise IdError("the id is out of range")
    return value.to_bytes(size_bytes, "big")
