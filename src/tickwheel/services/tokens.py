"""Draws fencing tokens: (shard epoch << 32) | sequence, rising per shard and therefore per job.

The epoch is raised in the store whenever a process takes a shard, also the same one after a restart; the sequence
is counted in memory and begins anew with each epoch. Only claims draw tokens, so nobody else ever writes one.
"""

from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.run import FENCE_SEQUENCE_BITS
from tickwheel.services.ownership.holdings import NOT_HELD, Holdings

SEQUENCE_LIMIT: Final = 1 << 31
"""From here on the owner takes a new epoch from itself (half the room, so that no batch can run over)."""
_SEQUENCE_MASK: Final = (1 << FENCE_SEQUENCE_BITS) - 1


class Tokens:
    """Tokens of the shards that this process holds; index = shard."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._epochs: Ints = np.full(SHARD_COUNT, NOT_HELD, dtype=np.int64)
        self._drawn: Ints = np.zeros(SHARD_COUNT, dtype=np.int64)

    def exhausted(self) -> list[int]:
        """The shards that need a new epoch before anything more is drawn."""
        self._follow()
        used_up = self._drawn >= SEQUENCE_LIMIT
        return [int(shard) for shard in np.flatnonzero(used_up)] if used_up.any() else []

    def draw(self, job_ids: Rows) -> Ints:
        """One new token per job id (`V16` array) of held shards, rising in batch order within each shard."""
        self._follow()
        shards = shards_of(job_ids)
        if len(shards) == 1:
            self._drawn[shards] += 1
            return (self._epochs[shards] << FENCE_SEQUENCE_BITS) | self._drawn[shards]
        order = np.argsort(shards, kind="stable")
        grouped = shards[order]
        starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        rank = np.arange(len(grouped)) - np.repeat(starts, sizes)
        tokens = np.empty(len(grouped), dtype=np.int64)
        tokens[order] = (self._epochs[grouped] << FENCE_SEQUENCE_BITS) | (self._drawn[grouped] + rank + 1)
        self._drawn[grouped[starts]] += sizes
        return tokens

    def rise_above(self, job_ids: Rows, fences: Ints) -> None:
        """Rows show these tokens, though nobody else should have written them: those to come are higher."""
        self._follow()
        shards = shards_of(job_ids)
        ours = fences >> FENCE_SEQUENCE_BITS == self._epochs[shards]
        np.maximum.at(self._drawn, shards[ours], fences[ours] & _SEQUENCE_MASK)

    def _follow(self) -> None:
        """Begin the sequence anew where the epoch is another one."""
        changed = self._epochs != self._holdings.epochs
        if changed.any():
            self._drawn[changed] = 0
            self._epochs[:] = self._holdings.epochs
