"""The shards that this process holds: what it may load, fire and draw tokens for."""

from collections.abc import Iterable, Sequence

import numpy as np

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT

NOT_HELD = -1


class Holdings:
    """Epochs by shard; `NOT_HELD` where another process (or nobody) owns it."""

    def __init__(self, epochs: Ints | None = None) -> None:
        """Nothing is held, or, for a process that is alone on its store, every shard under these epochs."""
        self.epochs: Ints = np.full(SHARD_COUNT, NOT_HELD, dtype=np.int64)
        self._shards: tuple[int, ...] | None = None
        if epochs is not None:
            self.adopt_all(epochs)

    def adopt(self, shard: int, epoch: int) -> None:
        """The shard is ours under this epoch."""
        self.epochs[shard] = epoch
        self._shards = None

    def adopt_all(self, epochs: Ints) -> None:
        """Every shard is ours, under these epochs by shard."""
        self.epochs[:] = epochs
        self._shards = None

    def drop(self, shards: Iterable[int]) -> None:
        """These are ours no more."""
        self.epochs[list(shards)] = NOT_HELD
        self._shards = None

    def shards(self) -> Sequence[int]:
        """Those that are held, in order."""
        if self._shards is None:
            self._shards = tuple(np.flatnonzero(self.epochs != NOT_HELD).tolist())
        return self._shards

    def share(self) -> float:
        """How much of the cluster's work is this process's: its part of the shards, one of them at least."""
        return max(1, len(self.shards())) / SHARD_COUNT

    def holds(self, job_ids: Rows) -> Bools:
        """Per job id (`V16`), whether its shard is held."""
        held: Bools = self.epochs[shards_of(job_ids)] != NOT_HELD
        return held
