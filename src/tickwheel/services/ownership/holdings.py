"""The shards that this process holds: what it may load, fire and draw tokens for."""

from collections.abc import Iterable, Sequence

import numpy as np

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.ids import SHARD_COUNT, shards_of

NOT_HELD = -1


class Holdings:
    """Epochs by shard; `NOT_HELD` where another process (or nobody) owns it."""

    def __init__(self) -> None:
        self.epochs: Ints = np.full(SHARD_COUNT, NOT_HELD, dtype=np.int64)

    def adopt(self, shard: int, epoch: int) -> None:
        """The shard is ours under this epoch."""
        self.epochs[shard] = epoch

    def drop(self, shards: Iterable[int]) -> None:
        """These are ours no more."""
        self.epochs[list(shards)] = NOT_HELD

    def shards(self) -> Sequence[int]:
        """Those that are held, in order."""
        return [int(shard) for shard in np.flatnonzero(self.epochs != NOT_HELD)]

    def holds(self, job_ids: Rows) -> Bools:
        """Per job id (`V16`), whether its shard is held."""
        held: Bools = self.epochs[shards_of(job_ids)] != NOT_HELD
        return held
