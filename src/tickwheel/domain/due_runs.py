"""Rows that left the wheel or came too late for it, in due order: a few sorted runs that are merged rarely.

The wheel hands over whole ticks, callers arm timers that are already due (a million of them after an outage),
and `take` may return only some of it. Sorting all of it again each time would make one call cost as much as the
backlog is long. So each hand-over becomes a sorted run, a run is merged into its elder only when that is less
than twice as long, and `take` looks at the heads alone: with `n` rows waiting there are at most about log2(n)
runs, a row is merged at most that often, and taking `k` rows costs O(k log n) however many stay.

Example: a node takes a shard over with 1,000,000 overdue timers and fires 1,000 per round while single late
timers still come in. The million is sorted once; a round then touches the first 1,000 rows of the long run and
a handful of short ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import TIMER, Ints, Rows, empty
from tickwheel.domain.wheel_slots import stable_order

_INT64 = np.iinfo(np.int64)


class _Run(NamedTuple):
    """Rows with their due times ascending, in a contiguous column of their own for the binary search."""

    dues: Ints
    rows: Rows

    def head(self, count: int) -> "_Run":
        return _Run(self.dues[:count], self.rows[:count])

    def tail(self, count: int) -> "_Run":
        return _Run(self.dues[count:], self.rows[count:])


class DueRuns:
    """A multiset of `TIMER` rows that gives the earliest back first, equal due times in order of arrival."""

    __slots__ = ("_fresh", "_runs")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._fresh: list[Rows] = []

    def __len__(self) -> int:
        return sum(len(run.dues) for run in self._runs) + sum(map(len, self._fresh))

    def add(self, rows: Rows) -> None:
        """Take over `rows` (in any order; not copied). Sorted at the next look, so that single ones stay cheap."""
        if len(rows):
            self._fresh.append(rows)

    def add_run(self, batches: list[tuple[Ints, Rows]]) -> None:
        """Take over batches of (due times, rows), at best in due order already; they become one run."""
        self._settle()
        if batches:
            self._push(_merged([_Run(*batch) for batch in batches]))

    def count_due(self, now_ms: int) -> int:
        """How many rows are due at `now_ms`."""
        self._settle()
        return sum(self._due_counts(now_ms))

    def first_due_ms(self) -> int | None:
        """The earliest due time."""
        self._settle()
        return min((int(run.dues[0]) for run in self._runs), default=None)

    def take(self, now_ms: int, limit: int | None = None) -> Rows:
        """Remove and return the rows due at `now_ms`, at most the `limit` earliest. The caller owns the array."""
        self._settle()
        counts = self._due_counts(now_ms)
        if limit is not None:
            counts = self._earliest([min(count, limit) for count in counts], limit)
        taken = [run.head(count) for run, count in zip(self._runs, counts, strict=True) if count]
        rest = [run.tail(count) for run, count in zip(self._runs, counts, strict=True) if count < len(run.dues)]
        cut = len(taken) + len(rest) > len(self._runs)
        self._runs = rest
        if not taken:
            return empty(TIMER)
        if len(taken) > 1:
            return _merged(taken).rows
        # a slice would keep its whole run in memory for as long as the caller holds it
        return taken[0].rows.copy() if cut else taken[0].rows

    def retain(self, keep: Callable[[Rows], npt.NDArray[np.bool_]]) -> int:
        """Drop the rows for which `keep` is false; how many went."""
        self._settle()
        before = len(self)
        masks = [keep(run.rows) for run in self._runs]
        self._runs = [
            _Run(run.dues.compress(mask), run.rows.compress(mask))
            for run, mask in zip(self._runs, masks, strict=True)
            if mask.any()
        ]
        return before - len(self)

    def clear(self) -> None:
        """Forget every row."""
        self._runs.clear()
        self._fresh.clear()

    def _settle(self) -> None:
        """Sort what came in since the last look."""
        if self._fresh:
            rows = _joined(self._fresh)
            self._fresh.clear()
            self._push(_sorted(_Run(rows["due_ms"].astype(np.int64), rows)))

    def _push(self, run: _Run) -> None:
        self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2].dues) < 2 * len(self._runs[-1].dues):
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def _due_counts(self, now_ms: int) -> list[int]:
        now_ms = min(max(now_ms, _INT64.min), _INT64.max)
        return [int(run.dues.searchsorted(now_ms, "right")) for run in self._runs]

    def _earliest(self, counts: list[int], limit: int) -> list[int]:
        """How many of the `limit` earliest rows each run has, when only its first `counts` rows are due."""
        if sum(counts) <= limit:
            return counts
        heads = [run.dues[:count] for run, count in zip(self._runs, counts, strict=True)]
        winners = np.argsort(np.concatenate(heads), kind="stable")[:limit]
        owners = np.repeat(np.arange(len(heads)), counts)[winners]
        return [int(count) for count in np.bincount(owners, minlength=len(heads))]


def _joined(parts: list[Rows]) -> Rows:
    # numpy copies structured rows field by field when it concatenates; joining their bytes is 25 times faster
    return np.frombuffer(bytearray().join(part.tobytes() for part in parts), TIMER)


def _merged(runs: list[_Run]) -> _Run:
    if len(runs) == 1:
        return _sorted(runs[0])
    return _sorted(_Run(np.concatenate([run.dues for run in runs]), _joined([run.rows for run in runs])))


def _sorted(run: _Run) -> _Run:
    if (run.dues[1:] >= run.dues[:-1]).all():
        return run
    order = stable_order(run.dues)
    return _Run(run.dues.take(order), run.rows.take(order))
