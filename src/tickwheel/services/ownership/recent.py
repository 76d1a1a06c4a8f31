"""Remembers which timers were armed just now, so that one that arrives by two ways is armed once.

A timer that this process inserts is armed after its commit, and comes again by the feed (which must not leave it
out: the process may die between commit and arming). Either may be first. Arming it twice would be harmless, for
the second claim loses, but it would double the claims of a busy node.

The memory is direct-mapped: a key is mixed into two independent 64-bit numbers, the first of which names a cell,
and the cell keeps both and when. Of two keys that share a cell the older one is forgotten, which only costs a
claim; no two keys are ever taken for one another, short of a collision in 128 bits. No sorting, no growth, no
clearing by age.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.ports.clock import Clock

CELL_BITS: Final = 19
RECENT_MS: Final = 10_000
LONG_AGO_MS: Final = -(1 << 62)

Words = npt.NDArray[np.uint64]
_ID_WORDS: Final = np.dtype([("high", "<u8"), ("low", "<u8")])
_FIRST: Final = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
    0xA0761D6478BD642F,
)
_SECOND: Final = (
    0xE7037ED1A0B428DB,
    0x8EBC6AF09C88C6E3,
    0x589965CC75374CC3,
    0x1D8E4E27C47D124F,
    0xEB44ACCAB455D165,
)


class RecentlyArmed:
    """The timer keys of the last seconds."""

    def __init__(self, clock: Clock, cell_bits: int = CELL_BITS) -> None:
        self._clock, self._shift = clock, np.uint64(64 - cell_bits)
        self._first: Words = np.zeros(1 << cell_bits, dtype=np.uint64)
        self._second: Words = np.zeros(1 << cell_bits, dtype=np.uint64)
        self._armed_ms: Ints = np.full(1 << cell_bits, LONG_AGO_MS, dtype=np.int64)

    def take_new(self, timers: Rows) -> Rows:
        """The TIMER rows that were not armed just now; they are remembered as armed."""
        if not len(timers):
            return timers
        now_ms = self._clock.monotonic_ms()
        first, second = _mixed(timers, _FIRST), _mixed(timers, _SECOND)
        cells = (first >> self._shift).astype(np.intp)
        new: Bools = (
            (self._first[cells] != first)
            | (self._second[cells] != second)
            | (self._armed_ms[cells] < now_ms - RECENT_MS)
        )
        self._first[cells], self._second[cells], self._armed_ms[cells] = first, second, now_ms
        return timers if new.all() else timers[new]

    def clear(self) -> None:
        """Forget all: what was armed may have been dropped since."""
        self._armed_ms.fill(LONG_AGO_MS)


def _mixed(timers: Rows, factors: tuple[int, ...]) -> Words:
    ids = np.ascontiguousarray(timers["job_id"]).view(_ID_WORDS)
    columns = (
        timers["due_ms"].astype(np.uint64),
        ids["high"],
        ids["low"],
        timers["scheduled_ms"].astype(np.uint64),
        timers["gen"].astype(np.int64).astype(np.uint64),
    )
    mixed: Words = np.zeros(len(timers), dtype=np.uint64)
    for column, factor in zip(columns, factors, strict=True):
        mixed ^= column
        mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(29)
    return mixed
