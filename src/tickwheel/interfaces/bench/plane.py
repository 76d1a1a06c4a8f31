"""The trigger plane: due timers to committed claims, into a sink with unlimited credits, in this process.

Every claim is one write. `check` holds the result: each run was claimed once, and the ledger says the same.
"""

from collections.abc import Sequence
from typing import Final, Self

import numpy as np

from tickwheel.domain.columns import TIMER, ClaimVerdict, Ints, Rows
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.run import RunState
from tickwheel.interfaces.bench.outcome import BenchFailed
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.workloads import INSERT_JOBS, make_jobs
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ClaimsAnswered, Event, LoopFailed, TimersLoaded
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Store
from tickwheel.services.scheduler import Scheduler
from tickwheel.wiring import start_with_unlimited_credits, system_randomness

SINK_TARGET: Final = Target(type=TargetType.HTTP_WEBHOOK, endpoint="http://sink/")
CHECK_MS: Final = 20
STALL_MS: Final = 60_000
LOADED_MS: Final = 1_800_000
SAMPLE_RUNS: Final = 10_000
_ID_BYTES: Final = 16


class Plane:
    """Made by `open`; `taken` and the times grow while it fires."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.taken = 0
        self.claims_took_ms = self.slices_took_ms = self.last_ms = 0
        self._ids, self._scheduled, self._claimed = bytearray(), list[Ints](), list[Ints]()
        self._verdicts: Ints = np.zeros(len(ClaimVerdict), dtype=np.int64)
        self._failure = ""
        self._loaded_until_ms = 0
        self._side: Scheduler | None = None

    @classmethod
    async def open(cls, store: Store, clock: Clock) -> Self:
        """Start firing what the store holds."""
        plane = cls(store, clock)
        plane._side = await start_with_unlimited_credits(store, clock, plane, plane._take)
        return plane

    async def aclose(self) -> None:
        """Stop; the store is closed too."""
        if self._side is not None:
            await self._side.drain(0)
        await self.store.aclose()

    @property
    def side(self) -> Scheduler:
        """What fires."""
        assert self._side is not None
        return self._side

    def emit(self, event: Event) -> None:
        """Take what the firing side tells."""
        match event:
            case ClaimsAnswered():
                self._verdicts += event.verdicts
                self.claims_took_ms += event.took_ms
            case TimersLoaded():
                self.slices_took_ms += event.took_ms
                self._loaded_until_ms = max(self._loaded_until_ms, event.until_ms)
            case LoopFailed():
                self._failure = self._failure or f"{event.loop}: {event.error}"
            case _:
                return

    async def until_loaded(self) -> None:
        """Until what is near, past and within half an hour was read; a timer that comes later is armed once."""
        while self._loaded_until_ms < self.clock.now_ms() + LOADED_MS:
            await self.clock.sleep_ms(CHECK_MS)

    async def insert(self, due_ms: Sequence[int]) -> None:
        """Store jobs and arm their timers, as the node does that they are sent to."""
        jobs = make_jobs(due_ms, SINK_TARGET, self.clock, system_randomness())
        for start in range(0, len(jobs), INSERT_JOBS):
            part = jobs[start : start + INSERT_JOBS]
            await self.store.insert_jobs(part)
            rows: Rows = np.zeros(len(part), TIMER)
            rows["job_id"] = np.frombuffer(b"".join([new.job.job_id for new in part]), f"V{_ID_BYTES}")
            rows["due_ms"] = rows["scheduled_ms"] = due_ms[start : start + INSERT_JOBS]
            rows["gen"], rows["flags"] = 1, [new.job.timer_flags for new in part]
            self.side.arm(rows)

    def lateness_ms(self, *, began_ms: int = 0) -> Ints:
        """Claim committed - due, per run; what was due before `began_ms` counts from there."""
        late: Ints = np.concatenate(self._claimed) - np.maximum(np.concatenate(self._scheduled), began_ms)
        return late

    async def until_taken(self, wanted: int, bar: Progress) -> None:
        """Wait until `wanted` runs have been claimed. Raises `BenchFailed` when nothing moves for a minute."""
        shown, moved_ms = self.taken, self.clock.monotonic_ms()
        while self.taken < wanted:
            await self.clock.sleep_ms(CHECK_MS)
            now_ms = self.clock.monotonic_ms()
            if self.taken != shown:
                bar.update(self.taken - shown)
                shown, moved_ms = self.taken, now_ms
            elif now_ms - moved_ms > STALL_MS:
                raise BenchFailed(f"{self.taken} of {wanted} timers were claimed, then nothing. {self._failure}")

    async def check(self, wanted: int) -> None:
        """Each of `wanted` runs was claimed exactly once; the ledger is asked about some, evenly spread."""
        answered = {verdict.name: int(self._verdicts[verdict]) for verdict in ClaimVerdict if verdict}
        if self.taken != wanted or self._verdicts.sum() != wanted or answered["WON"] != wanted:
            told = ", ".join(f"{count} {name}" for name, count in answered.items() if count)
            raise BenchFailed(f"{wanted} timers gave {self.taken} runs; claims: {told}. {self._failure}")
        ids = np.frombuffer(bytes(self._ids), f"S{_ID_BYTES}")
        scheduled_ms = np.concatenate(self._scheduled)
        if len(np.unique(ids)) != wanted:
            raise BenchFailed(f"{wanted - len(np.unique(ids))} runs were claimed twice")
        sample = np.unique(np.linspace(0, wanted - 1, SAMPLE_RUNS).astype(np.int64)).tolist()
        raw = ids.view(f"V{_ID_BYTES}")
        for start in range(0, len(sample), 1_000):
            numbers = sample[start : start + 1_000]
            runs = await self.store.find_runs([(raw[n].tobytes(), int(scheduled_ms[n])) for n in numbers])
            for run in runs:
                if run is None or run.state is not RunState.DISPATCHED or run.attempt != 1:
                    raise BenchFailed(f"the ledger does not hold the claim of a run: {run}")

    def _take(self, works: Sequence[Work]) -> None:
        self.last_ms = self.clock.now_ms()
        self.taken += len(works)
        self._ids += b"".join([work.job_id for work in works])
        self._scheduled.append(np.array([work.scheduled_ms for work in works], np.int64))
        self._claimed.append(np.full(len(works), self.last_ms))
