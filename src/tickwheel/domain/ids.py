"""Job and run ids: layout, print, parse.

A job id is 128 bits: 48 bits creation ms, 16 bits shard, 16 bits home (the due day at creation, in days since
the epoch; 0 = recurring or beyond the daily horizon) and 48 random bits. It routes itself: partition and
shard are read off the id, so no look-up table is needed, and ids made later sort later.

Printed: `job_` + 26 Crockford base32 characters; a run is `run_` + 39 characters over the job id and the
64-bit scheduled instant, so a run id names its job too.
"""

from collections.abc import Sequence
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
    return JOB_PREFIX + _encode(int.from_bytes(job_id, "big"), JOB_CHARS)


def run_id_text(job_id: bytes, scheduled_ms: int) -> str:
    """`run_` + 39 characters; two printed runs of a job sort by their instants."""
    return RUN_PREFIX + _encode(int.from_bytes(job_id, "big") << 64 | scheduled_ms, RUN_CHARS)


def parse_job_id(text: str) -> bytes:
    """Raw bytes of a printed job id; raises `IdError`."""
    return _decode(text, JOB_PREFIX, JOB_CHARS, 16)


def parse_run_id(text: str) -> tuple[bytes, int]:
    """(raw job id, scheduled_ms) of a printed run id; raises `IdError`."""
    raw = _decode(text, RUN_PREFIX, RUN_CHARS, 24)
    return raw[:16], int.from_bytes(raw[16:], "big", signed=True)


def job_id_texts(job_ids: Sequence[bytes]) -> list[str]:
    """Printed ids of many jobs."""
    return [job_id_text(j) for j in job_ids]


def _encode(value: int, chars: int) -> str:
    parts = []
    for _ in range(chars // 2):
        parts.append(_PAIRS[value & 1023])
        value >>= 10
    if chars % 2:
        parts.append(ALPHABET[value & 31])
    parts.reverse()
    return "".join(parts)


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
