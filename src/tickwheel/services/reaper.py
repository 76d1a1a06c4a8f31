"""Ends attempts whose worker is gone: the run is claimed again under a new token, or dead-lettered.

Three ways lead here, all with a token to guard the write: a claim that met a run in flight (`watch`), a lease in
the store that ran out (`expired`), and an attempt of this process that outlived its own lease (`watch` again).
A run held under an earlier epoch belongs to a process that is proved dead, so it is not waited for. If the
worker's own completion commits first, the reaper's write finds another state and changes nothing.

A lease that ran out only because the machine's clock was set forward proves nothing: attempts of this process
whose lease holds on the monotonic clock are left alone (`held`), and the next heartbeat renews them.

A lost worker uses an attempt up, for the work may have happened; but the last allowed attempt counts only once
RUNNING was written, so a crash between its claim and its start hands it back.
"""

import asyncio
from collections.abc import Callable, Sequence, Set
from typing import Final

import numpy as np

from tickwheel.domain.columns import COMPLETION, CompletionCause, Rows
from tickwheel.domain.outcome import Outcome, OutcomeClass, decide
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.store import AttemptNote, Run, Store
from tickwheel.services.completion import Completions
from tickwheel.services.plans import read_policy

CHECK_MS: Final = 500
EXPIRED_LIMIT: Final = 1_000
READ_TOGETHER: Final = 64
LOST: Final = Outcome(
    outcome_class=OutcomeClass.LOST, error="the worker was lost: its lease ended without a result"
)


class Reaper:
    """The lease watch of one process."""

    def __init__(
        self,
        *,
        store: Store,
        completions: Completions,
        held: Callable[[], Set[tuple[bytes, int, int]]],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._store, self._completions, self._held = store, completions, held
        self._clock, self._randomness = clock, randomness
        self._watched: dict[tuple[bytes, int], tuple[int, int]] = {}

    def watch(self, job_id: bytes, scheduled_ms: int, fence: int, lease_ms: int) -> None:
        """Look at this run again when `lease_ms` (wall clock; 0 = its worker is dead) is past."""
        self._watched[job_id, scheduled_ms] = (fence, lease_ms)

    async def run(self) -> None:
        """Reap for ever."""
        while True:
            await self.sweep()
            await self._clock.sleep_ms(CHECK_MS)

    async def sweep(self) -> None:
        """Reap all that has run out by now."""
        now_ms = self._clock.now_ms()
        due = [(key, *held) for key, held in self._watched.items() if held[1] <= now_ms]
        for start in range(0, len(due), READ_TOGETHER):
            part = due[start : start + READ_TOGETHER]
            ids = [key[0] for key, _, _ in part]
            definitions = await self._store.load_work(ids)
            runs = await asyncio.gather(
                *(
                    self._store.get_run(work.tenant_id, *key)
                    for (key, _, _), work in zip(part, definitions, strict=True)
                    if work is not None
                )
            )
            await self._reap(
                [run for run in runs if run is not None], dead={k for k, _, until in part if not until}
            )
            for key, fence, lease_ms in part:
                if self._watched.get(key) == (fence, lease_ms):
                    del self._watched[key]
        await self._reap(await self._store.expired(now_ms, EXPIRED_LIMIT), dead=set())

    async def _reap(self, runs: Sequence[Run], dead: set[tuple[bytes, int]]) -> None:
        flying = [run for run in runs if run.state in IN_FLIGHT]
        if not flying:
            return
        now_ms, held = self._clock.now_ms(), self._held()
        due = []
        for run in flying:
            if (run.job_id, run.scheduled_ms, run.fence) in held:
                continue
            key = (run.job_id, run.scheduled_ms)
            if key in dead or (run.lease_ms or 0) <= now_ms:
                due.append(run)
            else:
                self.watch(*key, run.fence, run.lease_ms or 0)
        if not due:
            return
        definitions = await self._store.load_work([run.job_id for run in due])
        rows = np.zeros(len(due), dtype=COMPLETION)
        notes: dict[int, AttemptNote] = {}
        for number, (run, work) in enumerate(zip(due, definitions, strict=True)):
            self._fill(rows, number, run, now_ms, (run.job_id, run.scheduled_ms) in dead)
            error = LOST.error
            if work is not None:
                policy = read_policy(work.spec)
                decision = decide(LOST, run.attempt, run.lost_count, policy, self._randomness.fraction(), now_ms)
                rows["state"][number] = decision.state
                rows["lost_count"][number] = decision.lost_count
                rows["retry_ms"][number] = -1 if decision.retry_at_ms is None else decision.retry_at_ms
                if decision.state is RunState.FAILED:
                    error = f"{LOST.error} ({decision.reason})"
            notes[number] = AttemptNote(error=error, excerpt=None)
        self._completions.add(rows, notes, [None] * len(due))
        await self._completions.flushed()  # else the next look would find and reap the same runs again

    def _fill(self, rows: Rows, number: int, run: Run, now_ms: int, dead: bool) -> None:
        row = rows[number]
        row["due_ms"], row["gen"] = -1, 0
        row["job_id"], row["scheduled_ms"], row["fence"] = np.void(run.job_id), run.scheduled_ms, run.fence
        row["state"], row["outcome"] = RunState.FAILED, OutcomeClass.LOST
        row["cause"] = CompletionCause.DEAD_OWNER if dead else CompletionCause.REAPER
        row["attempt"], row["lost_count"], row["retry_ms"] = run.attempt, run.lost_count, -1
        row["started_ms"], row["finished_ms"] = run.started_ms or run.claimed_ms or 0, now_ms
        row["flags"] = int(run.lane)
