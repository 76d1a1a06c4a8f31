"""Draws fencing tokens: (shard epoch << 32) | sequence, rising per shard and therefore per job.

The epoch is raised in the store whenever a process takes the shards, also the same one after a restart; the
sequence is counted in memory. Only claims draw tokens, so nobody else ever writes one.
"""

from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints, Rows
from tickwheel.domain.ids import shards_of
from tickwheel.domain.run import FENCE_SEQUENCE_BITS

SEQUENCE_LIMIT: Final = 1 << 31
"""From here on the owner takes a new epoch from itself (half the room, so that no batch can run over)."""


class Tokens:
    """Tokens of the shards that this process owns; index = shard."""

    def __init__(self, epochs: Ints) -> None:
        self._epochs = epochs.astype(np.int64)
        self._drawn = np.zeros(len(epochs), dtype=np.int64)

    @property
    def exhausted(self) -> bool:
        """Whether some shard needs a new epoch before anything more is drawn."""
        return bool((self._drawn >= SEQUENCE_LIMIT).any())

    def draw(self, job_ids: Rows) -> Ints:
        """One new token per job id (`V16` array), rising in batch order within each shard."""
        shards = shards_of(job_ids)
        order = np.argsort(shards, kind="stable")
        grouped = shards[order]
        starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        rank = np.arange(len(grouped)) - np.repeat(starts, sizes)
        tokens = np.empty(len(grouped), dtype=np.int64)
        tokens[order] = (self._epochs[grouped] << FENCE_SEQUENCE_BITS) | (self._drawn[grouped] + rank + 1)
        self._drawn[grouped[starts]] += sizes
        return tokens

    def is_older(self, job_id: bytes, fence: int) -> bool:
        """Whether `fence` was drawn under an earlier epoch than ours, by a process that is gone."""
        shard = int.from_bytes(job_id[6:8], "big")
        return fence >> FENCE_SEQUENCE_BITS < int(self._epochs[shard])
