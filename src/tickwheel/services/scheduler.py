"""One process's firing side, put together: it owns all shards, fires their timers and runs their attempts.

    store -> Slices -> wheel -> Ticker -> ready ring -> Claims -> Pools -> Completions -> store
                 ^                                                              |
                 +--------------- follow-up timers (retries) -------------------+

Everything in memory here can be lost at any moment; the store has it all.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Target
from tickwheel.domain.outcome import Outcome
from tickwheel.domain.wheel import TimingWheel
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import EventSink
from tickwheel.ports.executor import Executor, Work
from tickwheel.ports.store import Store
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.attempts import Pool
from tickwheel.services.chain_check import ChainCheck
from tickwheel.services.claims import Claims
from tickwheel.services.clock_watch import ClockWatch
from tickwheel.services.completion import Completions
from tickwheel.services.heartbeats import Heartbeats, stop_after_ms
from tickwheel.services.host_gate import HostGate
from tickwheel.services.parked import Parked
from tickwheel.services.plans import Planner
from tickwheel.services.ready import ReadyRing
from tickwheel.services.reaper import Reaper
from tickwheel.services.safety_net import SafetyNet
from tickwheel.services.slices import Slices
from tickwheel.services.starts import Starter
from tickwheel.services.supervision import supervise
from tickwheel.services.sweeper import Sweeper
from tickwheel.services.ticker import Ticker
from tickwheel.services.tokens import Tokens

BuildExecutor = Callable[[Callable[[Sequence[int], Sequence[Outcome]], None]], Executor]
DRAIN_MARGIN_MS: Final = 2_000
"""After the grace time, how long the last completions may take to commit."""


def _ignore(works: Sequence[Work | None]) -> None:
    """Handlers have no host."""


class SchedulerSettings(msgspec.Struct, frozen=True):
    """Lengths in ms, counts in rows."""

    lease_ms: int = 30_000
    window_ms: int = 3_600_000
    armed_limit: int = 10_000_000
    webhook_slots: int = 512
    webhook_host_limit: int = 64
    handler_slots: int = 512
    retention_ms: int = 7 * 86_400_000


class Scheduler:
    """Implements `ports.owner.Owner`. Built by `start`; `drain` ends it."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        build_webhooks: BuildExecutor,
        build_handlers: BuildExecutor,
        serves: Callable[[Target], bool],
        tokens: Tokens,
        worker: str,
        settings: SchedulerSettings,
        clock_behind_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._clock, self._events = clock, events
        self.wheel, self.ready = TimingWheel(clock.now_ms()), ReadyRing()
        self.parked = Parked(ready=self.ready, clock=clock)
        self.gate = HostGate(limit=settings.webhook_host_limit, ready=self.ready, clock=clock)
        self.completions = Completions(
            ledger=store, clock=clock, events=events, arm=self.arm, on_room=self._wake_claims
        )
        self.pools = [
            Pool(
                capacity=capacity,
                build_executor=build,
                completions=self.completions,
                clock=clock,
                randomness=randomness,
                events=events,
                on_free=self._wake_claims,
                on_ended=on_ended,
            )
            for capacity, build, on_ended in (
                (settings.webhook_slots, build_webhooks, self.gate.leave),
                (settings.handler_slots, build_handlers, _ignore),
            )
        ]
        self._ticker = Ticker(wheel=self.wheel, ready=self.ready, clock=clock, on_due=self._wake_claims)
        self._slices = Slices(
            store=store,
            wheel=self.wheel,
            backlog=lambda: len(self.ready) + self.gate.held_count,
            clock=clock,
            events=events,
            on_armed=self._ticker.wake,
            window_ms=settings.window_ms,
            armed_limit=settings.armed_limit,
        )
        self._lease_ms = settings.lease_ms
        self._reaper = Reaper(
            store=store, completions=self.completions, held=self._held, clock=clock, randomness=randomness
        )
        self._claims = Claims(
            store=store,
            ready=self.ready,
            parked=self.parked,
            gate=self.gate,
            pools=self.pools,
            planner=Planner(events, serves, alive_since_ms=clock.now_ms()),
            starter=Starter(store=store, pools=self.pools, completions=self.completions, clock=clock),
            completions=self.completions,
            reaper=self._reaper,
            tokens=tokens,
            worker=worker,
            clock=clock,
            events=events,
            arm=self.arm,
            lease_length_ms=settings.lease_ms,
        )
        self._heartbeats = Heartbeats(
            ledger=store, pools=self.pools, reaper=self._reaper, clock=clock, lease_length_ms=settings.lease_ms
        )
        self._sweeper = Sweeper(store=store, clock=clock, retention_ms=settings.retention_ms)
        self._chain_check = ChainCheck(store=store, owner=self, clock=clock, events=events)
        self._safety_net = SafetyNet(
            store=store,
            ready=self.ready,
            parked=self.parked,
            gate=self.gate,
            pools=self.pools,
            clock=clock,
            on_due=self._wake_claims,
        )
        self._clock_watch = ClockWatch(clock=clock, events=events, behind_ms=clock_behind_ms)
        self._loops: dict[str, asyncio.Task[None]] = {}

    @property
    def armed_until_ms(self) -> int:
        """The end of the loaded window."""
        return self._slices.hi_ms

    def arm(self, timers: Rows) -> None:
        self._slices.arm(timers)

    def forget_work(self, job_id: bytes) -> None:
        """Nothing is kept: definitions are read with each claim batch, and their version is checked."""

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        for pool in self.pools:
            slots = [slot for job_id, scheduled_ms in runs for slot in pool.inflight.find(job_id, scheduled_ms)]
            if slots:
                pool.abort(slots)

    def start(self) -> None:
        """Begin all loops on the running event loop."""
        for name, loop in (
            ("slices", self._slices.run),
            ("ticker", self._ticker.run),
            ("claims", self._claims.run),
            ("completion", self.completions.run),
            ("heartbeats", self._heartbeats.run),
            ("lease guard", self._heartbeats.guard),
            ("reaper", self._reaper.run),
            ("parked", self._run_parked),
            ("sweeper", self._sweeper.run),
            ("chain check", self._chain_check.run),
            ("safety net", self._safety_net.run),
            ("clock watch", self._clock_watch.run),
        ):
            running = supervise(name, loop, self._clock, self._events)
            self._loops[name] = asyncio.create_task(running, name=f"tickwheel-{name}")

    async def drain(self, grace_ms: int) -> None:
        """Stop claiming, let attempts end within `grace_ms`, hand the rest back, commit, stop the loops.

        Leases are renewed and cancels obeyed meanwhile. What is still uncommitted after a further
        `DRAIN_MARGIN_MS` is left to the next start, which finds it in flight and claims it again.
        """
        self._claims.stop()
        await wait_at_most(self._claims.idle.wait(), DRAIN_MARGIN_MS, self._clock)
        await asyncio.gather(*(pool.executor.aclose(grace_ms) for pool in self.pools))
        await wait_at_most(self.completions.flushed(), DRAIN_MARGIN_MS, self._clock)
        for loop in self._loops.values():
            loop.cancel()
        await asyncio.gather(*self._loops.values(), return_exceptions=True)
        self._loops.clear()

    def _held(self) -> set[tuple[bytes, int, int]]:
        """The attempts of this process that still hold their lease, by the monotonic clock."""
        since_ms = self._clock.monotonic_ms() - stop_after_ms(self._lease_ms)
        return {key for pool in self.pools for key in pool.inflight.held(since_ms)}

    def _wake_claims(self) -> None:
        self._claims.wake()

    async def _run_parked(self) -> None:
        while True:
            await self._clock.sleep_ms(500)
            if self.parked.release_due():
                self._claims.wake()
