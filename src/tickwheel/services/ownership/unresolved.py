"""The lowest due time, per shard, of all timers that this process knows of and has not seen resolved.

A timer is **resolved** only when a committed read or write has shown that nothing more can come of it: its run
is terminal or paused, waits for a later timer, or is in flight *with a row in `leases`*, where anybody finds it
once its lease is over. "Handed over", "claim sent" or "claim lost" are not enough. Example: a claim is won and
the attempt begins; owner and worker are one machine, and it burns after five seconds. There is no lease row yet,
nothing but the timer leads to the run: had the owner counted it as resolved, the next owner would never look at
it.

So this walks over every place where a timer may be, from the wheel to the uncommitted completions. Places that
hold very many give one bound for all shards (a bound that is too low costs the next owner some reading, no
more). The result may go back as well as forth: a timer that was committed late, long due, is unresolved like any
other.

Timers of handlers that nothing here runs are dropped from memory: the store has them, and there may be millions.
So are those of tenants that may not start them now. A floor per shard stands for them, renewed whenever the safety
net has read all overdue timers once more.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.lanes import LANE_COUNT

NEVER_MS: Final = (1 << 63) - 1
FEW_TIMERS: Final = 20_000
"""Up to here a crowd is looked at by shard."""


def no_floors() -> Ints:
    """By shard: nothing is unresolved."""
    return np.full(SHARD_COUNT, NEVER_MS, dtype=np.int64)


class Unserved:
    """Floors for timers that were dropped because nothing here runs their target; and roughly how many they are.

    `on_dropped` gets their rows and says, by lane, how many have just come due: these are dropped for the first
    time.
    """

    def __init__(self) -> None:
        self.on_dropped: Callable[[Rows], Ints] = lambda timers: np.zeros(LANE_COUNT, dtype=np.int64)
        self.floors: Ints = no_floors()
        self._since_pass: Ints = no_floors()
        self._counts: Ints = np.zeros(LANE_COUNT, dtype=np.int64)  # of the latest pass
        self._fresh: Ints = np.zeros(LANE_COUNT, dtype=np.int64)  # that came due since it ended
        self._met: Ints = np.zeros(LANE_COUNT, dtype=np.int64)  # by this pass so far

    def note(self, timers: Rows) -> None:
        """These were dropped."""
        if len(timers):
            self.note_held(timers)
            fresh = self.on_dropped(timers)
            self._fresh += fresh
            self._met += np.bincount(timers["flags"] & FLAG_LANE_MASK, minlength=LANE_COUNT) - fresh

    def note_held(self, timers: Rows) -> None:
        """These were dropped because they may not be started now: nobody is asked to do them."""
        for floors in (self.floors, self._since_pass):
            lower(floors, timers)

    def end_pass(self) -> None:
        """All overdue timers were read since the pass before ended: what is still unserved was noted meanwhile."""
        self.floors, self._since_pass = self._since_pass, no_floors()
        self._counts, self._met = self._met, self._counts
        self._met[:] = self._fresh[:] = 0

    def count_anew(self) -> None:
        """Much of it is served now; a new pass meets the rest."""
        self._counts[:] = self._fresh[:] = self._met[:] = 0

    def counts(self) -> Sequence[int]:
        """By lane: as many as the latest pass met and came due since, or as this one has met so far."""
        counts: Sequence[int] = np.maximum(self._counts + self._fresh, self._met).tolist()
        return counts

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of them; None: there are none."""
        lowest = int(self.floors.min())
        return None if lowest == NEVER_MS else lowest

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or are loaded anew."""
        for floors in (self.floors, self._since_pass):
            floors[list(shards)] = NEVER_MS


class Crowd(Protocol):
    """A place that may hold very many timers."""

    def __len__(self) -> int: ...

    def rows(self) -> Rows: ...

    def lowest_due_ms(self) -> int | None: ...


class Unresolved:
    """Asks all places: `places` give rows with `job_id` and `due_ms`; the wheel gives one bound for all shards."""

    def __init__(
        self,
        *,
        wheel_next_ms: Callable[[], int | None],
        crowds: Sequence[Crowd],
        places: Sequence[Callable[[], Rows]],
        unserved: Unserved,
    ) -> None:
        self._wheel_next_ms, self._crowds, self._places = wheel_next_ms, crowds, places
        self._unserved = unserved

    def lowest_ms(self) -> Ints:
        """By shard."""
        lowest = self._unserved.floors.copy()
        _bound(lowest, self._wheel_next_ms())
        for crowd in self._crowds:
            if len(crowd) > FEW_TIMERS:
                _bound(lowest, crowd.lowest_due_ms())
            else:
                lower(lowest, crowd.rows())
        for place in self._places:
            lower(lowest, place())
        return lowest


def _bound(floors: Ints, due_ms: int | None) -> None:
    if due_ms is not None:
        np.minimum(floors, due_ms, out=floors)


def lower(floors: Ints, timers: Rows) -> None:
    """Bring the floors down to the due times of these rows; a negative one is not known and left out."""
    if len(timers):
        due_ms: Ints = timers["due_ms"].astype(np.int64)
        due_ms[due_ms < 0] = NEVER_MS
        np.minimum.at(floors, shards_of(timers["job_id"]), due_ms)
