"""Moves the timers of a minute that comes near from the buffer to the wheel, or says whose are to be read."""

import numpy as np

from tickwheel.domain.columns import Bools
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.minutes import MINUTE_MS, Bucket, subs_of
from tickwheel.services.buffering.far_timers import FarTimers
from tickwheel.services.ownership.groups import Groups, ShardGroup

_SUB_OF = subs_of(np.arange(SHARD_COUNT, dtype=np.int64))


class Mover:
    """Used by the loop that reads slices. `hi` has risen over the minute before it is moved."""

    def __init__(self, *, far: FarTimers, groups: Groups) -> None:
        self._far, self._groups = far, groups

    def has(self, group: ShardGroup, from_ms: int, until_ms: int) -> bool:
        """Whether a gap begins with a whole minute of which the buffer should hold something of this group."""
        if from_ms % MINUTE_MS or until_ms < from_ms + MINUTE_MS:
            return False
        return bool((group.mask & self._far.covers(from_ms, from_ms + MINUTE_MS)).any())

    async def arm_minute(self, group: ShardGroup, minute_ms: int) -> tuple[Bools, int]:
        """Arm what the buffer gives; gives the shards to be read from the store, and how many were armed."""
        covered = group.mask & self._far.covers(minute_ms, minute_ms + MINUTE_MS)
        missing, count = group.mask & ~covered, 0
        for sub in np.unique(_SUB_OF[covered]).tolist():
            here = covered & (sub == _SUB_OF)
            rows = await self._far.take(Bucket(minute_ms // MINUTE_MS, sub))
            if rows is None:
                missing |= here
            elif len(rows):
                rows = rows[here[shards_of(rows["job_id"])]]
                self._groups.arm_read(group, rows)
                count += len(rows)
        return missing, count
