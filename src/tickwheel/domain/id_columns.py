"""Ids in columns. Apart from `ids`, so that a client that only prints ids loads no numpy."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints, Rows
from tickwheel.domain.ids import ALPHABET, DAY_MS, HOME_HORIZON_MS, JOB_CHARS, JOB_PREFIX, RANDOM_BYTES

_DIGITS: Final = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
_DIGIT_PAIRS: Final = np.stack([_DIGITS.repeat(32), np.tile(_DIGITS, 32)], axis=1).view(np.uint16).ravel()
"""By ten bits, two digits; as one number, so that they are copied together."""
_ID: Final = np.dtype(
    [("created_high", ">u2"), ("created_low", ">u4"), ("shard", ">u2"), ("home", ">u2"), ("random", "V6")]
)
_RECURRING_MS: Final = -1


def make_job_ids(
    *, created_ms: int, shards: Sequence[int], due_ms: Sequence[int | None], randomness: bytes
) -> list[bytes]:
    """What `ids.make_job_id` gives for each; `randomness` holds `RANDOM_BYTES` for each, one after the other."""
    due = np.array([_RECURRING_MS if due is None else due for due in due_ms], dtype=np.int64)
    homes = np.maximum(1, due // DAY_MS) & 0xFFFF
    homes[(due == _RECURRING_MS) | (due - created_ms >= HOME_HORIZON_MS)] = 0
    ids = np.empty(len(due), dtype=_ID)
    ids["created_high"], ids["created_low"] = created_ms >> 32, created_ms & 0xFFFF_FFFF
    ids["shard"], ids["home"] = shards, homes
    ids["random"] = np.frombuffer(randomness, f"V{RANDOM_BYTES}")
    return _cut(ids.tobytes(), _ID.itemsize)


def job_id_texts(job_ids: Sequence[bytes]) -> list[str]:
    """What `ids.job_id_text` gives for each."""
    words = np.frombuffer(b"".join(job_ids), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    high, low = words[:, 0], words[:, 1]
    places = np.empty((len(words), JOB_CHARS), dtype=np.uint8)
    for place in range(JOB_CHARS):
        shift = 5 * (JOB_CHARS - 1 - place)
        if shift >= 64:
            digit = high >> np.uint64(shift - 64)
        else:
            digit = low >> np.uint64(shift)
            if shift > 59:
                digit |= high << np.uint64(64 - shift)
        places[:, place] = digit & np.uint64(31)
    texts = _DIGITS[places].tobytes().decode("ascii")
    return [JOB_PREFIX + texts[at : at + JOB_CHARS] for at in range(0, len(texts), JOB_CHARS)]


def joined_job_ids(job_ids: Sequence[bytes], between: str) -> str:
    """What `ids.job_id_text` gives for each, with an ASCII text between each two of them; at least one."""
    words = np.frombuffer(b"".join(job_ids), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    high, low = words[:, 0], words[:, 1]
    width = len(JOB_PREFIX) + JOB_CHARS + len(between)
    row = np.frombuffer((JOB_PREFIX + " " * JOB_CHARS + between).encode(), dtype=np.uint8)
    pairs = np.empty((len(words), JOB_CHARS // 2), dtype=np.uint16)
    for place in range(JOB_CHARS // 2):
        shift = 10 * (JOB_CHARS // 2 - 1 - place)
        if shift >= 64:
            digits = high >> np.uint64(shift - 64)
        else:
            digits = low >> np.uint64(shift)
            if shift > 54:
                digits |= high << np.uint64(64 - shift)
        pairs[:, place] = _DIGIT_PAIRS[(digits & np.uint64(1023)).astype(np.int64)]
    texts = np.empty((len(words), width), dtype=np.uint8)
    texts[:] = row
    texts[:, len(JOB_PREFIX) : len(JOB_PREFIX) + JOB_CHARS] = pairs.view(np.uint8)
    return texts.tobytes()[: width * len(words) - len(between)].decode("ascii")


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def shards_of(job_ids: Rows) -> Ints:
    """The shard that is written into each id of a `V16` array."""
    raw = np.frombuffer(np.ascontiguousarray(job_ids).tobytes(), dtype=np.uint8).reshape(-1, 16)
    shards: Ints = raw[:, 6].astype(np.int64) << 8 | raw[:, 7]
    return shards
