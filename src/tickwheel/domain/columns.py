"""Columnar record types of the hot path.

Everything between a due timer and a committed completion travels as numpy structured arrays, one row per
run, so that arming, claiming and completing handle batches and never single runs.

A job id is 16 raw bytes (`V16`: numpy's `S16` would strip trailing NULs). Times are UTC epoch milliseconds.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.void]
"""A structured array with one of the dtypes below."""
Ints: TypeAlias = npt.NDArray[np.int64]
Bytes1: TypeAlias = npt.NDArray[np.uint8]
AnyArray: TypeAlias = npt.NDArray[Any]

TIMER = np.dtype(
    [
        ("due_ms", "<i8"),  # never fires before this instant
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),  # names the run together with job_id; = due_ms for a first timer
        ("gen", "<i4"),  # first timer: jobs.version (>= 1); follow-up: -(runs.gen)
        ("flags", "u1"),  # bits 0-1 lane, bit 2 recurring, bit 3 handler target
    ]
)
"""A stored "job J is due at T", as loaded from the store and held in the wheel (37 bytes)."""

FLAG_LANE_MASK = 0b0000_0011
FLAG_RECURRING = 0b0000_0100
FLAG_HANDLER = 0b0000_1000


def empty(dtype: np.dtype[Any], count: int = 0) -> Rows:
    """A zeroed array of `count` rows of `dtype`."""
    return np.zeros(count, dtype=dtype)
