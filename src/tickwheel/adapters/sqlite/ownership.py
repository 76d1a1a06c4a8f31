"""Which epochs and which worker name this process holds."""

from typing import Final

import numpy as np

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.run import FENCE_SEQUENCE_BITS

SQL: Final = load_statements("ownership")
NOBODY: Final = 0


class Ownership:
    """Changed by `acquire` only, in the writer's thread."""

    def __init__(self) -> None:
        self.worker = NOBODY
        self._epochs: Ints = np.full(SHARD_COUNT, -1, dtype=np.int64)

    def acquire(self, session: Session, name: str) -> tuple[int, Ints]:
        """Raise all epochs; gives the number that stands for `name` in rows, and the epochs by shard."""
        session.run(SQL["raise_epochs"])
        session.run(SQL["name_worker"], {"name": name})
        worker = session.value(SQL["worker"], {"name": name})
        epochs = np.zeros(SHARD_COUNT, dtype=np.int64)
        for shard, epoch in session.table(SQL["epochs"]):
            epochs[shard] = epoch
        return worker, epochs

    def adopt(self, worker: int, epochs: Ints) -> None:
        """Claim under these from now on; called once they are committed."""
        self.worker, self._epochs = worker, epochs

    def holds(self, batch: Rows) -> Bools:
        """Per CLAIM row, whether its token was drawn under the epoch that is held now."""
        if self.worker == NOBODY:
            return np.zeros(len(batch), dtype=np.bool_)
        raw = np.frombuffer(np.ascontiguousarray(batch["job_id"]).tobytes(), dtype=np.uint8).reshape(-1, 16)
        shards = raw[:, 6].astype(np.int64) << 8 | raw[:, 7]
        known = shards < SHARD_COUNT
        held: Bools = known & (self._epochs[shards % SHARD_COUNT] == batch["fence"] >> FENCE_SEQUENCE_BITS)
        return held
