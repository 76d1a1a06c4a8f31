"""What the receiver's log says about one fault.

Of the runs that were created through the broken node and due after the fault:

- **gap**: the longest time from a run's due instant to its first arrival, so the longest that anybody waited.
- **resumed**: per shard with a late run, the time from the fault to the first arrival; the longest of these.
- **rerun**: per run that was in flight at the fault, the time from the fault to the arrival of its next attempt
  (a higher token); the longest of these.
"""

from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Ints

LATE_MS: Final = 50
"""A run that comes later than this waited for somebody."""


class Fault(NamedTuple):
    """One fault: of which node, when, and until when runs that were created before it are due."""

    node: int
    at_ms: int
    until_ms: int
    slow_due_ms: int


class Effect(NamedTuple):
    """What it did. -1: nothing of the kind was there to measure."""

    gap_ms: int
    resumed_ms: int
    rerun_ms: int


class Arrivals:
    """First arrivals by job, and later attempts; columns as `detailed_sink` writes them."""

    def __init__(self, rows: Ints) -> None:
        order = np.argsort(rows[:, 1], kind="stable")
        rows = rows[order]
        self.early = int((rows[:, 1] < rows[:, 0]).sum())
        self.keys, first = np.unique(rows[:, 2], return_index=True)
        self._first_ms: Ints = rows[first, 1]
        again = np.ones(len(rows), dtype=bool)
        again[first] = False
        self._again = rows[again]

    def first_ms(self, keys: Ints) -> Ints:
        """When each job's first request came; -1 where none did."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self._first_ms[at], -1)

    def effect(self, fault: Fault, keys: Ints, shards: Ints, due_ms: Ints) -> Effect:
        """`keys`, `shards`, `due_ms`: of all jobs that the broken node created."""
        mine = (due_ms >= fault.at_ms) & (due_ms < fault.until_ms)
        first_ms = self.first_ms(keys[mine])
        late_ms = first_ms - due_ms[mine]
        gap_ms = int(late_ms.max()) if len(late_ms) else -1
        resumed_ms = -1
        for shard in np.unique(shards[mine][late_ms > LATE_MS]):
            resumed_ms = max(resumed_ms, int(first_ms[shards[mine] == shard].min()) - fault.at_ms)
        return Effect(gap_ms, resumed_ms, self._rerun_ms(fault, keys[due_ms == fault.slow_due_ms]))

    def punctual_again_ms(self, at_ms: int, limit_ms: int, keys: Ints, shards: Ints, due_ms: Ints) -> Ints:
        """Per shard, from `at_ms` to the first arrival of a job due after it that is at most `limit_ms` late.

        -1: there was none.
        """
        after = due_ms >= at_ms
        first_ms, shards, due_ms = self.first_ms(keys[after]), shards[after], due_ms[after]
        punctual = (first_ms >= 0) & (first_ms - due_ms <= limit_ms)
        again = [
            int(first_ms[these].min()) - at_ms if these.any() else -1
            for these in (punctual & (shards == shard) for shard in np.unique(shards))
        ]
        return np.array(again, np.int64)

    def _rerun_ms(self, fault: Fault, slow: Ints) -> int:
        if not len(slow) or not len(self._again):
            return -1
        of_slow = np.isin(self._again[:, 2], slow) & (self._again[:, 1] >= fault.at_ms)
        received_ms, keys = self._again[of_slow, 1], self._again[of_slow, 2]
        if not len(keys):
            return -1
        _, first = np.unique(keys, return_index=True)
        return int(received_ms[first].max()) - fault.at_ms
