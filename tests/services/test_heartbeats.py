"""Renewals whose answer comes when the slot has changed hands; and rest while nothing runs."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.outcome import ProgressNote
from tickwheel.services.attempts import Pool
from tickwheel.services.heartbeats import Heartbeats
from tickwheel.services.inflight import InFlight
from tickwheel.testing.virtual_clock import VirtualClock

TOKEN = 2 << 32 | 1
"""Both attempts have it: a token is unique in its shard only."""


class OnePool:
    """What heartbeats need of a pool: the table of attempts, and what was aborted."""

    def __init__(self) -> None:
        self.inflight = InFlight(1)
        self.said: dict[int, ProgressNote] = {}
        self.aborted: list[int] = []

    def begin(self, job_id: bytes, mono_ms: int) -> None:
        (slot,) = self.inflight.take(1)
        row = self.inflight.rows[slot : slot + 1]
        row["job_id"], row["fence"], row["stopping"] = np.void(job_id), TOKEN, 0
        row["begun_mono_ms"] = row["renewed_mono_ms"] = mono_ms

    def take_back(self) -> Rows:
        return self.inflight.rows[:0]

    def abort(self, slots: Sequence[int]) -> None:
        self.aborted += slots


class SlowLedger:
    """Refuses, after the first attempt has ended and another one has its slot."""

    def __init__(self, pool: OnePool, clock: VirtualClock) -> None:
        self._pool, self._clock = pool, clock
        self.answered = False

    async def renew(self, batch: Rows) -> Bools:
        if not self.answered:
            self._pool.inflight.release([0])
            self._pool.begin(b"second job, 16 B", self._clock.monotonic_ms())
        self.answered = True
        return np.zeros(len(batch), dtype=np.bool_)


async def test_a_renewal_refused_for_an_attempt_that_has_ended_stops_no_other_one_in_its_slot() -> None:
    clock, pool = VirtualClock(), OnePool()
    pool.begin(b"first job, 16 B.", clock.monotonic_ms())
    await clock.advance(300)
    ledger = SlowLedger(pool, clock)
    heartbeats = Heartbeats(
        ledger=cast(Any, ledger),
        pools=[cast(Pool, pool)],
        reaper=cast(Any, None),
        clock=clock,
        lease_length_ms=30_000,
    )
    await heartbeats.beat()
    assert ledger.answered
    assert pool.aborted == []


async def test_heartbeats_rest_until_an_attempt_begins_and_rest_again_when_it_has_ended() -> None:
    clock, pool = VirtualClock(), OnePool()
    ledger = SlowLedger(pool, clock)
    heartbeats = Heartbeats(
        ledger=cast(Any, ledger),
        pools=[cast(Pool, pool)],
        reaper=cast(Any, None),
        clock=clock,
        lease_length_ms=30_000,
    )
    loops = [asyncio.create_task(loop()) for loop in (heartbeats.run, heartbeats.guard)]
    try:
        await clock.advance(1_000)
        assert clock.next_wake_ms is None
        pool.begin(b"first job, 16 B.", clock.monotonic_ms())
        heartbeats.wake()
        await clock.advance(400)
        assert ledger.answered
        pool.inflight.release([0])
        await clock.advance(200)
        assert clock.next_wake_ms is None
    finally:
        for loop in loops:
            loop.cancel()
