"""Keeps the leases of running attempts, records that they run, and stops those that lost theirs.

An attempt still going after 250 ms is written as RUNNING; after a third of the lease it is renewed, again and
again. Short attempts are covered by the lease that their claim wrote and cost nothing here. What runs out is
watched by a loop of its own (`guard`): a renewal that hangs in the store must not keep an attempt alive. While no
attempt is in flight, both sleep until one begins.

What an attempt says of itself goes with a renewal, which comes at once if it has said nothing in the last second;
so of a handler that talks all the time, the store hears once a second.

An attempt stops by itself when `lease - margin` has passed since its last successful renewal was *sent*, on this
process's monotonic clock: another worker may have the run by then. If the process was paused, the first pass
after it wakes finds such attempts; they are aborted and given to the reaper, and whatever they still report is
refused by the store as soon as the run has a new token.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import RENEWAL, Bools, Ints, Rows
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Ledger
from tickwheel.services.attempts import Pool
from tickwheel.services.ownership.unresolved import NEVER_MS
from tickwheel.services.reaper import Reaper

CHECK_MS: Final = 100
RUNNING_AFTER_MS: Final = 250
SAFETY_MARGIN_MS: Final = 3_000
RENEWALS_PER_LEASE: Final = 3
SAY_EVERY_MS: Final = 1_000

Slots = npt.NDArray[np.intp]


def stop_after_ms(lease_length_ms: int) -> int:
    """How long after its last renewal was sent an attempt may still believe in its lease."""
    return max(lease_length_ms - SAFETY_MARGIN_MS, lease_length_ms // 2)


class Heartbeats:
    """Both loops of one process."""

    def __init__(
        self, *, ledger: Ledger, pools: Sequence[Pool], reaper: Reaper, clock: Clock, lease_length_ms: int
    ) -> None:
        self._ledger, self._pools, self._reaper, self._clock = ledger, pools, reaper, clock
        self._lease_length_ms = lease_length_ms
        self._renew_after_ms = lease_length_ms // RENEWALS_PER_LEASE
        self._stop_after_ms = stop_after_ms(lease_length_ms)
        self._begun = asyncio.Event()
        self._said_ms: dict[Pool, dict[int, int]] = {pool: {} for pool in pools}  # monotonic, by slot

    def wake(self) -> None:
        """Attempts have begun."""
        self._begun.set()

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            await self._until_busy()
            await self._clock.sleep_ms(CHECK_MS)
            await self.beat()

    async def _until_busy(self) -> None:
        while not any(len(pool.inflight) for pool in self._pools):
            self._begun.clear()
            await self._begun.wait()

    async def beat(self) -> None:
        """Renew what has to be renewed now."""
        for pool in self._pools:
            await self._beat(pool)

    async def guard(self) -> None:
        """Stop attempts whose lease is about to run out, for ever; never waits for the store."""
        while True:
            await self._until_busy()
            await self._clock.sleep_ms(CHECK_MS)
            for pool in self._pools:
                self._stop_unleased(pool)
                self._watch(pool.take_back())

    def _stop_unleased(self, pool: Pool) -> None:
        table = pool.inflight
        if not len(table):
            return
        slots = table.active_slots()
        age_ms = self._clock.monotonic_ms() - table.rows["renewed_mono_ms"][slots]
        lost = slots[(age_ms > self._stop_after_ms) & (table.rows["stopping"][slots] == 0)]
        if not len(lost):
            return
        self._watch(table.rows[lost])
        pool.abort(lost.tolist())

    def _watch(self, rows: Rows) -> None:
        """Attempts of this process that are renewed no more."""
        for row in rows:
            # "running" is written by the first renewal, which makes the row in `leases`
            due_ms = NEVER_MS if row["running"] else int(row["due_ms"])
            key = row["job_id"].tobytes(), int(row["scheduled_ms"])
            self._reaper.watch(*key, int(row["fence"]), int(row["lease_ms"]), due_ms)

    async def _beat(self, pool: Pool) -> None:
        table = pool.inflight
        if not len(table):
            return
        mono_ms = self._clock.monotonic_ms()
        slots = table.active_slots()
        slots = slots[
            (table.rows["stopping"][slots] == 0)
            & (mono_ms - table.rows["renewed_mono_ms"][slots] <= self._stop_after_ms)
        ]
        if not len(slots):
            return
        rows = table.rows[slots]
        starting = (rows["running"] == 0) & (mono_ms - rows["begun_mono_ms"] >= RUNNING_AFTER_MS)
        # By the wall clock as well: when it was set forward, the lease in the store seems to have run out.
        left_ms = self._lease_length_ms - self._renew_after_ms
        old = mono_ms - rows["renewed_mono_ms"] >= self._renew_after_ms
        due = starting | old | (rows["lease_ms"] - self._clock.now_ms() <= left_ms)
        if pool.said:
            due |= self._speaking(pool, slots, mono_ms)
        if due.any():
            await self._renew(pool, slots[due], rows[due], mono_ms)

    def _speaking(self, pool: Pool, slots: Slots, mono_ms: int) -> Bools:
        """Which of these attempts have something to say, and did not say anything a moment ago."""
        last_ms = self._said_ms[pool] = {
            slot: at_ms for slot, at_ms in self._said_ms[pool].items() if mono_ms - at_ms < SAY_EVERY_MS
        }
        return np.fromiter((s in pool.said and s not in last_ms for s in slots.tolist()), np.bool_, len(slots))

    async def _renew(self, pool: Pool, slots: Slots, rows: Rows, mono_ms: int) -> None:
        now_ms = self._clock.now_ms()
        batch = np.zeros(len(rows), dtype=RENEWAL)
        for name in ("job_id", "scheduled_ms", "fence", "started_ms"):
            batch[name] = rows[name]
        batch["lease_ms"], batch["beat_ms"], batch["mark_running"] = now_ms + self._lease_length_ms, now_ms, 1
        table = pool.inflight
        turns = table.turns[slots].copy()
        notes = self._take_said(pool, slots, mono_ms) if pool.said else None
        try:
            held = await (self._ledger.renew(batch, notes) if notes else self._ledger.renew(batch))
        except BaseException:
            self._say_again(pool, slots, turns, notes or {})
            raise
        same = table.active[slots] & (table.turns[slots] == turns)  # others ended meanwhile
        kept = slots[same & held]
        table.rows["running"][kept] = 1
        table.rows["renewed_mono_ms"][kept] = mono_ms
        table.rows["lease_ms"][kept] = now_ms + self._lease_length_ms
        refused = slots[same & ~held & (table.rows["stopping"][slots] == 0)]
        if len(refused):
            pool.abort(refused.tolist())

    def _take_said(self, pool: Pool, slots: Slots, mono_ms: int) -> dict[int, ProgressNote]:
        """By number of the row."""
        taken = {}
        for number, slot in enumerate(slots.tolist()):
            if slot in pool.said:
                taken[number] = pool.said.pop(slot)
                self._said_ms[pool][slot] = mono_ms
        return taken

    def _say_again(self, pool: Pool, slots: Slots, turns: Ints, notes: Mapping[int, ProgressNote]) -> None:
        """The store was away: what was said goes with the next renewal, unless something else is said first."""
        table = pool.inflight
        for number, note in notes.items():
            slot = int(slots[number])
            if table.active[slot] and table.turns[slot] == turns[number]:
                pool.said.setdefault(slot, note)
