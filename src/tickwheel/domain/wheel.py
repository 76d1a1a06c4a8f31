"""Hierarchical hashed timing wheel over columns: which timers are due now, out of millions, in O(1) per timer.

**Levels.** A timer lives in one slot of one of four levels, by how far away it is: hours, minutes, seconds,
ticks of 5 ms. Slots are keyed by their absolute number (`due_ms // width`), so there is no rotation in which
two of them could meet: a timer in ten years is a row in the hour slot of its own hour, not a row here with
87,600 rounds left. Each finer level has a frontier: what is due before it goes into that level or a finer one.
Arming compares with the frontiers and appends to one slot; a batch costs one radix sort and one gather per
level that it touches.

**Cascade.** As time passes, slots are split into the next finer level: hours into minutes, minutes into
seconds, seconds into ticks. Doing that when the hour begins would stall the call that meets it. So each
`advance` moves at most `budget_rows` rows, nearest first, out of the slots that begin within the next
`AHEAD_SLOTS` slots of their level: an hour has at least two hours to be split in, a second two seconds. A row
moves at most three times. Only when time jumps past a slot that isn't split yet, the rest of it is moved at
once, because then exactness needs it (and a slot that is over as a whole skips the finer levels).

**Exactness.** A tick whose start has come is handed to `DueRuns` whole, and from there leave the rows with
`due_ms <= now_ms` and no others: nothing is early, and nothing waits for the tick's end. Equal due times leave
in the order in which they were armed; the splits and the runs both keep it.

**Example.** At 10:59:58.000 a timer for 12:00:00.003 is armed. The minutes' frontier is 13:00 (two hours beyond
the current one), so it goes into the minute slot 12:00. From 11:58 on that is split into seconds, our timer
into 12:00:00; from 11:59:58 on that is split into ticks, our timer into 12:00:00.000, and `next_due_ms` answers
12:00:00.000. The call at that instant takes the tick out, returns what is due at .000 and not our timer;
`next_due_ms` answers 12:00:00.003, and the call at .003 returns it.

**The failure that it survives: a clock that steps.** The machine sleeps and `now_ms` comes back a day later:
the whole day is due and comes out in due order, in one call or in pages of `limit`. Then the clock is set back
by a day: the frontiers are a day ahead, rows keep their slots, nothing comes out twice or early, and the
frontiers are pulled back, so that new timers are placed by the new time and do not all count as late. A wheel
that stores "ticks from now", or trusts that time only grows, fires a day of work early or loses it.
"""

from collections.abc import Callable
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import Rows
from tickwheel.domain.due_runs import DueRuns
from tickwheel.domain.wheel_slots import (
    HOUR_MS,
    NEVER_MS,
    ROW_BYTES,
    Level,
    open_packed,
    pack,
    pack_each,
    unpack,
)

TICK_MS = 5
SECOND_MS = 1_000
MINUTE_MS = 60_000

AHEAD_SLOTS = 2
"""How many slots beyond the current one, in each level, are split ahead of time."""

MOVE_BUDGET_ROWS = 16_384
"""Rows that one `advance` moves ahead of time, in less than a millisecond; a million timers/s at 200 calls/s."""

_FEW_ROWS = 24
"""Up to here a Python loop arms faster than numpy."""

_BATCH_ROWS = 16_384
"""A larger batch is armed in parts, so that its columns stay in the cache and the memory for them small."""


class TimingWheel:
    """Armed timers by due time. Not thread-safe: one owner arms and advances.

    Arming the same timer (job_id, scheduled_ms, gen) twice returns it twice: knowing what is armed already is the
    caller's concern, and the ledger refuses the second claim anyway. There is no cancel for the same reason.
    """

    def __init__(self, now_ms: int, *, budget_rows: int = MOVE_BUDGET_ROWS) -> None:
        """An empty wheel at `now_ms` that moves at most `budget_rows` (>= 1) rows ahead of time per `advance`."""
        if budget_rows < 1:
            raise ValueError("budget_rows must be at least 1")
        self._budget_rows = budget_rows
        self._levels = [Level(width_ms) for width_ms in (HOUR_MS, MINUTE_MS, SECOND_MS, TICK_MS)]
        self._runs = DueRuns()
        self._count = 0
        self._moved_count = 0
        self._done_ms = 0
        self._set_frontiers(now_ms)

    def __len__(self) -> int:
        return self._count

    @property
    def moved_count(self) -> int:
        """Rows moved from one level to a finer one since the wheel was made: the work of the cascades."""
        return self._moved_count

    def arm(self, timers: Rows) -> None:
        """Arm `TIMER` rows with any due times; those already due are returned by the next `advance`.

        The rows are copied. O(rows), about 0.1 µs each in batches of thousands and 2 µs singly.
        """
        self._count += len(timers)
        if len(timers) <= _FEW_ROWS:
            self._arm_each(timers)
        else:
            for at in range(0, len(timers), _BATCH_ROWS):
                self._arm_batch(timers[at : at + _BATCH_ROWS])

    def advance(self, now_ms: int, limit: int | None = None) -> Rows:
        """Remove and return the timers with `due_ms <= now_ms`, each once, by due time and then by arming order.

        With `limit` at most so many, the earliest; the others stay due. The caller owns the array. `now_ms` may be
        anything, also earlier than before: then what isn't due yet by it waits.

        Costs O(rows returned + `budget_rows`), plus the slots that time jumped to before they were split, plus the
        last tick, which is taken out whole whatever the limit (0.05 µs per row).
        """
        if limit is not None and limit < 0:
            raise ValueError("limit must not be negative")
        if max(now_ms, 0) < self._done_ms - HOUR_MS:
            self._step_back(now_ms)
        self._collect(now_ms, None if limit is None else limit - self._runs.count_due(now_ms))
        rows = self._runs.take(now_ms, limit)
        self._count -= len(rows)
        self._split_ahead(min(now_ms, self._done_ms))
        return rows

    def next_due_ms(self) -> int | None:
        """The earliest instant at which `advance` could return something; None if nothing is armed.

        Never later than the earliest due time: equal to it in a tick that has begun, else the start of its tick
        for timers within about two seconds, else the start of the slot that it waits in. O(1).
        """
        starts = [start for level in self._levels if (start := level.first_ms()) is not None]
        first = self._runs.first_due_ms()
        return min(starts if first is None else [*starts, first], default=None)

    def next_wake_ms(self) -> int | None:
        """When `advance` should be called next: `next_due_ms`, or earlier, when there is a slot to split ahead.

        An answer that has passed means that a call would do useful work now (the caller should let others run in
        between). Sleeping to `next_due_ms` instead is correct too, but the splitting waits until then.
        """
        ahead = [
            start - AHEAD_SLOTS * level.width_ms
            for level in self._levels[:-1]
            if (start := level.first_ms()) is not None
        ]
        due_ms = self.next_due_ms()
        return None if due_ms is None else min([*ahead, due_ms])

    def retain(self, keep: Callable[[Rows], npt.NDArray[np.bool_]]) -> int:
        """Drop every timer for which `keep` says false; returns how many. O(rows armed).

        `keep` gets `TIMER` rows, a few thousand at a time, and returns a mask of the same length. If it raises,
        some rows may be dropped already.
        """
        before = self._count
        self._count -= self._runs.retain(keep)
        for level in self._levels:
            self._count -= level.retain(keep)
        return before - self._count

    def clear(self) -> None:
        """Forget every timer; the wheel's time stays."""
        self._runs.clear()
        for level in self._levels:
            level.clear()
        self._count = 0

    def _arm_each(self, timers: Rows) -> None:
        for at, (due_ms, data) in enumerate(pack_each(timers)):
            if due_ms < self._done_ms:
                self._runs.add(timers[at : at + 1].copy())
                continue
            level = next(level for level in reversed(self._levels) if due_ms < level.frontier_ms)
            level.append(due_ms // level.width_ms, data)

    def _arm_batch(self, timers: Rows) -> None:
        dues = timers["due_ms"].astype(np.int64)
        late = dues < self._done_ms
        if late.any():
            self._runs.add(timers.compress(late))
            timers, dues = timers.compress(~late), dues.compress(~late)
        for level in reversed(self._levels):
            here = dues < level.frontier_ms
            if here.any():
                level.scatter(dues.compress(here), pack(timers.compress(here)))
                timers, dues = timers.compress(~here), dues.compress(~here)

    def _collect(self, now_ms: int, room: int | None) -> None:
        """Hand over slots that have begun, earliest first, until `room` rows (None: any number) are there."""
        batches: list[tuple[int, bytes]] = []
        while room is None or room > 0:
            at, start_ms = self._first_slot()
            if start_ms > now_ms:
                self._pull_frontiers(now_ms)
                break
            if not self._may_leave_whole(at, now_ms, room):
                self._split(at)
                continue
            batches.append(self._levels[at].take_first())
            if room is not None:
                room -= len(batches[-1][1]) // ROW_BYTES
            end_ms = start_ms + self._levels[at].width_ms
            self._done_ms = max(self._done_ms, end_ms)
            for finer in self._levels[at + 1 :]:
                finer.frontier_ms = max(finer.frontier_ms, end_ms)
        by_hour = groupby(batches, key=itemgetter(0))
        self._runs.add_run([unpack(hour_ms, b"".join(data for _, data in group)) for hour_ms, group in by_hour])

    def _first_slot(self) -> tuple[int, int]:
        """(level, start) of the earliest occupied slot; the coarsest if several start together.

        A coarse slot may be half split, its finer ones filled: then the rest of it has to go after them first.
        """
        best = (0, NEVER_MS)
        for at, level in enumerate(self._levels):
            start_ms = level.first_ms()
            if start_ms is not None and start_ms < best[1]:
                best = (at, start_ms)
        return best

    def _may_leave_whole(self, at: int, now_ms: int, room: int | None) -> bool:
        """Whether the first slot of level `at` needs no splitting, because all of it is due and wanted."""
        level, *finer = self._levels[at:]
        if not finer:
            return True
        start_ms = level.first_ms()
        over = start_ms is not None and start_ms + level.width_ms <= now_ms + 1
        return over and not any(finer) and (room is None or level.first_row_count() <= room)

    def _split(self, at: int, row_limit: int | None = None) -> int:
        """Move rows (at most `row_limit`, None: all) of the first slot of level `at` one level down; how many."""
        level, finer = self._levels[at : at + 2]
        start_ms = level.first_ms()
        dues, packed = open_packed(*level.take_first(row_limit))
        finer.scatter(dues, packed)
        if start_ms is not None and level.first_ms() != start_ms:
            finer.frontier_ms = max(finer.frontier_ms, start_ms + level.width_ms)
        self._moved_count += len(dues)
        return len(dues)

    def _split_ahead(self, now_ms: int) -> None:
        budget = self._budget_rows
        for at in (2, 1, 0):
            level, finer = self._levels[at : at + 2]
            horizon_ms = min(_horizon_ms(level, now_ms), level.frontier_ms)
            while (start_ms := level.first_ms()) is not None and start_ms < horizon_ms:
                if not budget:
                    return
                budget -= self._split(at, budget)
            finer.frontier_ms = max(finer.frontier_ms, horizon_ms)

    def _pull_frontiers(self, now_ms: int) -> None:
        """Everything that has begun by `now_ms` is split: let new rows go where the old ones went."""
        self._done_ms = max(self._done_ms, (now_ms // TICK_MS + 1) * TICK_MS)
        for level, finer in pairwise(self._levels):
            finer.frontier_ms = max(finer.frontier_ms, (now_ms // level.width_ms + 1) * level.width_ms)

    def _step_back(self, now_ms: int) -> None:
        """Without this, a clock set back by days would make every new timer a late one, far from due as it is."""
        self._set_frontiers(now_ms)
        rows = self._runs.take(NEVER_MS)
        self._count -= len(rows)
        self.arm(rows)

    def _set_frontiers(self, now_ms: int) -> None:
        """Place new rows by `now_ms`, as far as no coarser slot can still hold older ones."""
        now_ms = max(now_ms, 0)
        self._done_ms = now_ms // TICK_MS * TICK_MS
        for level, finer in pairwise(self._levels):
            finer.frontier_ms = min(finer.frontier_ms, _horizon_ms(level, now_ms))


def _horizon_ms(level: Level, now_ms: int) -> int:
    """Where the slots of `level` begin that needn't be split yet."""
    return (now_ms // level.width_ms + 1 + AHEAD_SLOTS) * level.width_ms
