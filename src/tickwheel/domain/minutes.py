"""Minute buckets: how timers that are not near yet are sorted into a buffer outside the process.

A bucket holds timers of one UTC minute and of one sixteenth of the shards. (Whole minutes would put all of the
current minute on one node of a Redis Cluster, and into one answer.)
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Ints, Rows
from tickwheel.domain.id_columns import shards_of

MINUTE_MS: Final = 60_000
SUB_COUNT: Final = 16
"""Buckets of one minute."""


class Bucket(NamedTuple):
    """`minute` counts from the epoch, `sub` from 0."""

    minute: int
    sub: int

    @property
    def from_ms(self) -> int:
        """Where the minute begins."""
        return self.minute * MINUTE_MS

    @property
    def until_ms(self) -> int:
        """Where the next one begins."""
        return self.from_ms + MINUTE_MS


def floor_minute_ms(at_ms: int) -> int:
    """The beginning of the minute."""
    return at_ms // MINUTE_MS * MINUTE_MS


def ceil_minute_ms(at_ms: int) -> int:
    """The beginning of the first minute that is not before it."""
    return -(-at_ms // MINUTE_MS) * MINUTE_MS


def subs_of(shards: Ints) -> Ints:
    """Which bucket of a minute each shard belongs to."""
    return shards % SUB_COUNT


def by_bucket(timers: Rows) -> Iterator[tuple[Bucket, Rows]]:
    """TIMER rows sorted into their buckets; in a bucket they stay in order."""
    if not len(timers):
        return
    keys = timers["due_ms"] // MINUTE_MS * SUB_COUNT + subs_of(shards_of(timers["job_id"]))
    order = np.argsort(keys, kind="stable")
    timers, keys = timers[order], keys[order]
    starts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
    for start, end in pairwise(starts):
        minute, sub = divmod(int(keys[start]), SUB_COUNT)
        yield Bucket(minute, sub), timers[start:end]
