"""Runs that wait for their target, unclaimed: in due order per lane, and none beyond its deadline."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.services.ready import ReadyRing

_TAIL_BYTES: Final = 8
"""The last half of a job id is random: as a number it finds candidates quickly."""


class Waiting:
    """A ring of one kind, with the deadlines of those that have one (wall clock)."""

    __slots__ = ("_deadlines", "_earliest_ms", "kind", "ring")

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.ring = ReadyRing()
        self._deadlines: dict[tuple[bytes, int], int] = {}
        self._earliest_ms: int | None = None

    def __len__(self) -> int:
        return len(self.ring)

    @property
    def earliest_deadline_ms(self) -> int | None:
        """When the next deadline passes, or has passed."""
        return self._earliest_ms

    def count(self, lane: int) -> int:
        return self.ring.count(self.kind, lane)

    def push(self, timers: Rows, deadlines_ms: Sequence[int | None]) -> None:
        """Keep TIMER rows in due order."""
        self.ring.push(timers)
        if any(deadline is not None for deadline in deadlines_ms):
            keys = zip(timers["job_id"].tolist(), timers["scheduled_ms"].tolist(), deadlines_ms, strict=True)
            for job_id, scheduled_ms, deadline_ms in keys:
                if deadline_ms is not None:
                    self._deadlines[job_id, scheduled_ms] = deadline_ms
                    self._earliest_ms = min(deadline_ms, self._earliest_ms or deadline_ms)

    def take(self, lane: int, limit: int) -> Rows:
        """Up to `limit` of the longest-waiting ones."""
        timers = self.ring.take(self.kind, lane, limit)
        if self._deadlines:
            for key in _keys(timers):
                self._deadlines.pop(key, None)
            if not self._deadlines:
                self._earliest_ms = None
        return timers

    def drop(self, shards: Ints) -> int:
        """Forget those of these shards; how many went. O(what waits)."""
        rows = self.ring.rows()
        gone = np.isin(shards_of(rows["job_id"]), shards)
        if not gone.any():
            return 0
        self._refill(rows[~gone])
        if self._deadlines:
            for key in _keys(rows[gone]):
                self._deadlines.pop(key, None)
            self._earliest_ms = min(self._deadlines.values(), default=None)
        return int(np.count_nonzero(gone))

    def take_expired(self, now_ms: int) -> Rows:
        """Those whose deadline has passed: their claim will skip them. O(what waits), when there is one."""
        if self._earliest_ms is None or self._earliest_ms > now_ms:
            return empty(TIMER)
        expired = {key for key, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms}
        for key in expired:
            del self._deadlines[key]
        self._earliest_ms = min(self._deadlines.values(), default=None)
        rows = self.ring.rows()
        over = _matches(rows, expired)
        if over.any():
            self._refill(rows[~over])
        return rows[over]

    def _refill(self, kept: Rows) -> None:
        """A ring gives all its rows in no order."""
        self.ring = ReadyRing()
        self.ring.push(kept[np.argsort(kept["due_ms"], kind="stable")])


def _matches(rows: Rows, keys: set[tuple[bytes, int]]) -> Bools:
    tails = np.frombuffer(np.ascontiguousarray(rows["job_id"]).tobytes(), dtype="<u8")[1::2]
    wanted = np.array([int.from_bytes(job_id[-_TAIL_BYTES:], "little") for job_id, _ in keys], dtype="<u8")
    over: Bools = np.isin(tails, wanted)
    candidates = np.flatnonzero(over)
    for number, key in zip(candidates.tolist(), _keys(rows[candidates]), strict=True):
        over[number] = key in keys
    return over


def _keys(timers: Rows) -> Iterable[tuple[bytes, int]]:
    return zip(timers["job_id"].tolist(), timers["scheduled_ms"].tolist(), strict=True)
