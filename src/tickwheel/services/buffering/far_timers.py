"""Timers beyond the wheel's window, in the buffer's minute buckets: put there, and taken back minute by minute.

**What is promised.** Per shard there is a range `[from, until)` of due time: whatever the store holds of it was,
or will be, handed to `put`, by the filling (`filled` is how far that has come) or by whoever commits or reads a
new timer. Once the wheel's end `hi` has risen over a minute, nothing more of it is put, so what was put of a whole
minute that is filled is all there is, and `take` gives it: if every timer comes back. If not (lost, torn, stale,
away), it gives None and the minute is read from the store, as it would be without a buffer.

**What it rests on.** Nothing here is vouched for: `hi`, the gaps and `ack` of `ownership.groups` know nothing of
buckets, so a node that dies leaves everything from `hi` on to be read from the store. `until` is raised before the
slice is read that fills it, and never beyond the `until` of a poll under way, as `hi` is and for the same reason.

**Example.** The wheel holds up to 12:05. A timer for 12:31 is committed and put: it waits here for a second, for
others to share its pack, then goes to bucket 12:31. At 12:27 `hi` rises to 12:32. The bucket gives nine timers;
the book says nine, and their checksum agrees: they are armed. Had Redis been flushed at 12:10, it would give the
two that were put since; the minute would be read from the store, four minutes before it begins.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.minutes import Bucket, by_bucket
from tickwheel.ports.buffer import Buffer, Pack
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import BufferFailed, EventSink
from tickwheel.services.alarm import Alarm
from tickwheel.services.buffering.book import Book
from tickwheel.services.ownership.recent import RecentlyArmed

LINGER_MS: Final = 1_000
"""So long a timer waits for others of its bucket: a pack of many takes a third of the memory per timer."""
PENDING_TIMERS: Final = 20_000
"""More than this waiting are written at once."""
MOST_PENDING_TIMERS: Final = 200_000
"""What comes beyond is left to the store."""
SEND_PACKS: Final = 256
AWAY_MS: Final = 5_000
"""After a failure the buffer is left alone for so long."""
NEVER_MS: Final = (1 << 63) - 1
NOT_YET_MS: Final = -(1 << 62)


class FarTimers:
    """Loop thread only. `recent` None: there is no feed, so nothing comes twice."""

    def __init__(self, *, buffer: Buffer, recent: RecentlyArmed | None, clock: Clock, events: EventSink) -> None:
        self._buffer, self._recent, self._clock, self._events = buffer, recent, clock, events
        self._book, self._pending, self._pending_count = Book(), list[Rows](), 0
        self._writing, self._alarm = asyncio.Lock(), Alarm(clock)
        self._away_until_ms = NOT_YET_MS
        self._dropped_ms = NOT_YET_MS
        self.from_ms: Ints = np.full(SHARD_COUNT, NEVER_MS, dtype=np.int64)
        self.until_ms: Ints = np.full(SHARD_COUNT, NOT_YET_MS, dtype=np.int64)
        self.filled_ms: Ints = np.full(SHARD_COUNT, NOT_YET_MS, dtype=np.int64)
        self.turns: Ints = np.zeros(SHARD_COUNT, dtype=np.int64)
        """By shard: rises whenever it begins anew, so that a read for the time before counts for nothing."""

    @property
    def count(self) -> int:
        """Timers in the buffer or on their way; those that came near are there until they are resolved."""
        return self._book.timer_count + self._pending_count

    @property
    def away(self) -> bool:
        """Whether the buffer has just failed."""
        return self._clock.monotonic_ms() < self._away_until_ms

    def begin(self, shards: Ints, from_ms: int) -> None:
        """What these shards have from there on belongs into the buffer, as far as `reach` says."""
        self.from_ms[shards] = self.filled_ms[shards] = from_ms
        self.until_ms[shards] = np.maximum(self.until_ms[shards], from_ms)
        self.turns[shards] += 1

    def reach(self, shards: Ints, until_ms: int) -> None:
        """Up to there; it never goes back."""
        self.until_ms[shards] = np.maximum(self.until_ms[shards], until_ms)

    def forget(self, shards: Sequence[int]) -> None:
        """These have left, or are loaded anew."""
        gone = list(shards)
        self.from_ms[gone], self.until_ms[gone], self.filled_ms[gone] = NEVER_MS, NOT_YET_MS, NOT_YET_MS
        self.turns[gone] += 1
        if self._recent is not None:
            self._recent.clear()

    def covers(self, minute_ms: int, until_ms: int) -> Bools:
        """By shard: whether all there is of that minute was put."""
        if minute_ms < self._dropped_ms:
            return np.zeros(SHARD_COUNT, dtype=np.bool_)
        covered: Bools = (self.from_ms <= minute_ms) & (self.filled_ms >= until_ms)
        return covered

    def put(self, timers: Rows) -> None:
        """Committed timers beyond `hi`: those within the buffer's range are kept for it."""
        if not len(timers):
            return
        timers = timers[timers["due_ms"] < self.until_ms[shards_of(timers["job_id"])]]
        if self._recent is not None:
            timers = self._recent.take_new(timers)
        self._keep(timers)

    def put_read(self, timers: Rows, shards: Ints) -> None:
        """What was read to fill the buffer: of these shards."""
        wanted = np.zeros(SHARD_COUNT, dtype=np.bool_)
        wanted[shards] = True
        self.put(timers if wanted.all() else timers[wanted[shards_of(timers["job_id"])]])

    def _keep(self, timers: Rows) -> None:
        if not len(timers):
            return
        if self._pending_count + len(timers) > MOST_PENDING_TIMERS:
            for bucket, _ in by_bucket(timers):
                self._book.void(bucket)
            return
        self._pending.append(timers)
        self._pending_count += len(timers)
        if self._pending_count >= PENDING_TIMERS:
            self._alarm.ring()

    async def run(self) -> None:
        """Write what waits, for ever."""
        while True:
            await self._alarm.sleep_ms(LINGER_MS)
            await self.flush()

    async def flush(self) -> None:
        """Write all that waits now, and what is being written: then the book is complete."""
        async with self._writing:
            if not self._pending:
                return
            waiting = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
            self._pending, self._pending_count = [], 0
            packs = [pack for bucket, rows in by_bucket(waiting) for pack in self._book.enter(bucket, rows)]
            sent = 0
            try:
                while sent < len(packs) and not self.away:
                    await self._send(packs[sent : sent + SEND_PACKS])
                    sent += SEND_PACKS
            finally:  # also when this loop is cancelled
                for bucket in {pack.bucket for pack in packs[sent:]}:
                    self._book.void(bucket)

    async def _send(self, packs: Sequence[Pack]) -> None:
        try:
            await self._buffer.add(packs)
        except ConnectionError as error:
            for pack in packs:
                self._book.void(pack.bucket)
            self._fail("add", len({pack.bucket for pack in packs}), str(error))

    async def take(self, bucket: Bucket) -> Rows | None:
        """All that was put of it, as TIMER rows; None: that is not to be had, read the store."""
        await self.flush()
        if self._book.is_void(bucket):
            return None
        count = self._book.count(bucket)
        if not count:
            return empty(TIMER)
        if self.away:
            return None
        try:
            rows = await self._buffer.read(bucket)
        except ConnectionError as error:
            self._fail("read", 1, str(error))
            return None
        if self._book.agrees(bucket, rows):
            return rows
        self._book.void(bucket)
        self._events.emit(BufferFailed(what="lost", buckets=1, error=f"{len(rows)} timers of {count} came back"))
        return None

    async def tidy(self, floor_ms: int) -> None:
        """Remove the buckets of minutes that end by then: all their timers are resolved in the store."""
        past = self._book.past(floor_ms)
        if not past or self.away:
            return
        self._dropped_ms = max(self._dropped_ms, floor_ms)
        try:
            await self._buffer.drop(past)
        except ConnectionError as error:
            self._fail("drop", len(past), str(error))  # they expire by themselves
        for bucket in past:
            self._book.forget(bucket)

    async def aclose(self) -> None:
        """Remove everything: nobody else reads these buckets."""
        await self.tidy(NEVER_MS)

    def _fail(self, what: Literal["add", "read", "drop"], buckets: int, error: str) -> None:
        self._away_until_ms = self._clock.monotonic_ms() + AWAY_MS
        self._events.emit(BufferFailed(what=what, buckets=buckets, error=error))
