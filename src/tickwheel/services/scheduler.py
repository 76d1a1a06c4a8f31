"""One process's firing side, put together: it fires the timers of the shards it holds and runs their attempts.

    store -> Slices -+-> Groups -> wheel -> Ticker -> ready ring -> Claims -> Pools -> Completions -> store
          -> Feed ---+      ^                                                              |
                            +-------------- follow-up timers (retries) --------------------+

A process that is alone on its store holds all shards from the start and needs no feed. In a cluster (`shards` is
given) shards come and go through `intake`, whose other side is told to `join`; the feed brings what others insert,
and the pairs say, each second, from where another node would go on.

Everything in memory here can be lost at any moment; the store has it all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Target
from tickwheel.domain.wheel import TimingWheel
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import EventSink
from tickwheel.ports.executor import Executor, Progress, Report
from tickwheel.ports.peers import Peers
from tickwheel.ports.queue import Queue
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import Store
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.attempts import Pool
from tickwheel.services.buffering.buffering import Buffering
from tickwheel.services.chain_check import ChainCheck
from tickwheel.services.claim_preparation import ClaimPreparation
from tickwheel.services.claims import Claims
from tickwheel.services.clock_watch import ClockWatch
from tickwheel.services.completion import Completions
from tickwheel.services.gates.host_gate import HostGate
from tickwheel.services.gates.limit_gate import LimitGate
from tickwheel.services.gates.tenant_gate import TenantGate
from tickwheel.services.heartbeats import Heartbeats, stop_after_ms
from tickwheel.services.loading import Loading
from tickwheel.services.ownership.feed import Feed
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.intake import OwnershipSide
from tickwheel.services.ownership.pairs import Pairs
from tickwheel.services.ownership.recent import RecentlyArmed
from tickwheel.services.ownership.unresolved import Crowd, Unresolved, Unserved
from tickwheel.services.parked import Parked
from tickwheel.services.plans import Planner
from tickwheel.services.ready import ReadyRing
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote.elsewhere import Elsewhere
from tickwheel.services.safety_net import SafetyNet
from tickwheel.services.scheduler_settings import SchedulerSettings as SchedulerSettings
from tickwheel.services.slices import Slices
from tickwheel.services.starts import Starter
from tickwheel.services.supervision import supervise
from tickwheel.services.sweeper import Sweeper
from tickwheel.services.tenant_rules import TenantRules
from tickwheel.services.tenants import Tenants
from tickwheel.services.ticker import Ticker

BuildExecutor = Callable[[Report, Progress], Executor]
DRAIN_MARGIN_MS: Final = 2_000
"""After the grace time, how long the last completions may take to commit."""


class Scheduler:
    """Implements `ports.owner.Owner`. Begun by `start`; `drain` ends it.

    `holdings` are the shards held; `worker` is this process's name where it is alone on its store.
    """

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
        holdings: Holdings,
        worker: str,
        settings: SchedulerSettings,
        shards: ShardStore | None = None,
        is_leader: Callable[[], bool] = lambda: True,
        clock_behind_ms: Callable[[], int] = lambda: 0,
        buffer: Buffer | None = None,
        queue: Queue | None = None,
        peers: Peers | None = None,
        local_routes: Sequence[str] = (),
    ) -> None:
        self._clock, self._events, self._settings = clock, events, settings
        self.holdings, self._shards, self._store = holdings, shards, store
        self._ownership: OwnershipSide | None = None
        self.wheel, self.ready = TimingWheel(clock.now_ms()), ReadyRing()
        self.parked = Parked(ready=self.ready, clock=clock)
        self.gate = HostGate(
            limit=settings.webhook_host_limit,
            ready=self.ready,
            clock=clock,
            randomness=randomness,
            events=events,
            host_rates=settings.host_rates,
            handler_rates=settings.handler_rates,
            share=holdings.share,
        )
        self.limits = LimitGate(store, self.ready, clock, randomness, on_due=self._wake_claims)
        self._unserved = Unserved()
        self.tenants = TenantGate(
            store,
            self.ready,
            self._unserved,
            clock,
            on_due=self._wake_claims,
            on_dropped_wanted=lambda: self._safety_net.go_on(),
            on_enabled=lambda: self._safety_net.start_over(),
            share=holdings.share,
        )
        self._ticker = Ticker(
            wheel=self.wheel, ready=self.ready, holdings=holdings, clock=clock, on_due=self._wake_claims
        )
        self.buffering = Buffering(
            buffer,
            sharded=shards is not None,
            clock=clock,
            events=events,
            window_ms=settings.window_ms,
            near_ms=settings.near_ms,
            horizon_ms=settings.buffer_ms,
        )
        self._groups = Groups(
            wheel=self.wheel,
            recent=None if shards is None else RecentlyArmed(clock),
            now_ms=clock.now_ms,
            on_armed=self._ticker.wake,
            on_new=lambda: self._slices.wake(),
            far=self.buffering.far,
        )
        self.completions = Completions(
            ledger=store,
            clock=clock,
            events=events,
            arm=self.arm,
            on_room=self._wake_claims,
            on_given_up=lambda ends: self._reaper.watch_given_up(ends, clock.now_ms() + settings.lease_ms),
            on_committed=self.limits.committed,
            is_crowded=lambda: self._claims.much_waits,
        )
        self.pools = [
            Pool(
                capacity=capacity,
                build_executor=build,
                completions=self.completions,
                clock=clock,
                randomness=randomness,
                events=events,
                on_begun=lambda: self._heartbeats.wake(),
                on_free=self._wake_claims,
                on_ended=self.gate.leave,
            )
            for capacity, build in (
                (settings.webhook_slots, build_webhooks),
                (settings.handler_slots, build_handlers),
            )
        ]
        self._slices = Slices(
            store=store,
            shards=shards,
            groups=self._groups,
            has_room=self._has_room,
            clock=clock,
            events=events,
            window_ms=self.buffering.wheel_ms,
            mover=self.buffering.mover(self._groups),
        )
        self.elsewhere = Elsewhere(
            queue=queue,
            store=store,
            peers=peers,
            ready=self.ready,
            completions=self.completions,
            local_routes=local_routes,
            rate_of=self.gate.hosts.rate_of,
            clock=clock,
            events=events,
            on_room=self._wake_claims,
            on_fresh=lambda: self._safety_net.start_over(),
            on_dead=lambda: self._reaper.wake(),
            unserved=self._unserved,
        )
        self._reaper = Reaper(
            store=store,
            completions=self.completions,
            held=self._held,
            shards=self._held_shards,
            adopt=self.elsewhere.outbox.adopt,
            clock=clock,
            randomness=randomness,
        )
        self._planner = Planner(events, serves, clock.now_ms(), self.elsewhere.serves, self.elsewhere.has_own)
        self._claims = Claims(
            store=store,
            holdings=holdings,
            groups=self._groups,
            ready=self.ready,
            parked=self.parked,
            preparation=ClaimPreparation(
                store=store,
                holdings=holdings,
                ready=self.ready,
                parked=self.parked,
                unserved=self._unserved,
                gate=self.gate,
                pools=self.pools,
                planner=self._planner,
                elsewhere=self.elsewhere,
                limits=self.limits,
                tenants=self.tenants,
                clock=clock,
            ),
            pools=self.pools,
            starter=Starter(store=store, pools=self.pools, completions=self.completions, clock=clock),
            elsewhere=self.elsewhere,
            completions=self.completions,
            reaper=self._reaper,
            worker=worker,
            clock=clock,
            events=events,
            lease_length_ms=settings.lease_ms,
        )
        self._heartbeats = Heartbeats(
            ledger=store, pools=self.pools, reaper=self._reaper, clock=clock, lease_length_ms=settings.lease_ms
        )
        self._sweeper = Sweeper(store=store, clock=clock, retention_ms=settings.retention_ms, is_leader=is_leader)
        self._chain_check = ChainCheck(store=store, owner=self, clock=clock, events=events, is_leader=is_leader)
        held: Sequence[Crowd] = (self.gate, self.limits, self.tenants)
        self._crowds = (self.ready, *held, self.elsewhere.backlog)
        self._unresolved = Unresolved(
            wheel_next_ms=self.wheel.next_due_ms,
            crowds=self._crowds,
            places=(
                self.parked.rows,
                self._claims.rows,
                *(pool.inflight.unleased for pool in self.pools),
                self.completions.rows,
                self._reaper.rows,
                self.elsewhere.outbox.rows,
            ),
            unserved=self._unserved,
        )
        self._safety_net = SafetyNet(
            store=store,
            ready=self.ready,
            parked=self.parked,
            held=held,
            pools=self.pools,
            reaper=self._reaper,
            groups=self._groups,
            shards=self._held_shards,
            from_ms=self._oldest_unresolved_ms,
            unserved=self._unserved,
            elsewhere=self.elsewhere.rows,
            claiming=self._claims.rows,
            clock=clock,
            on_due=self._wake_claims,
        )
        self.intake = Loading(
            groups=self._groups,
            claims=self._claims,
            reaper=self._reaper,
            outbox=self.elsewhere.outbox,
            unresolved=self._unresolved,
            unserved=self._unserved,
            on_adopted=self._safety_net.start_over,
        )
        self._clock_watch = ClockWatch(clock=clock, events=events, behind_ms=clock_behind_ms)
        self._loops: dict[str, asyncio.Task[None]] = {}
        self.feed: Feed | None = None

    @property
    def armed_until_ms(self) -> int:
        """The end of the loaded window."""
        main = self._groups.main
        return 0 if main is None else main.hi_ms

    def join(self, ownership: OwnershipSide) -> None:
        """In a cluster, before `start`: who decides about the shards."""
        self._ownership = self._claims.ownership = ownership

    def follow(self, tenants: Tenants) -> None:
        """Before `start`: hold tenants to what their records say."""
        TenantRules(tenants, self._planner, self.ready, self.limits, self.tenants)

    def waits_for(self, tenant_id: str) -> str | None:
        """Why due runs of the tenant wait, whatever their target is, in one word."""
        return self.tenants.waits_for(tenant_id) or self.limits.waits_for(tenant_id)

    def arm(self, timers: Rows) -> None:
        self._groups.arm(timers)

    def forget_work(self, job_id: bytes) -> None:
        """Nothing is kept: definitions are read with each claim batch, and their version is checked."""

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        for pool in self.pools:
            slots = [slot for job_id, scheduled_ms in runs for slot in pool.inflight.find(job_id, scheduled_ms)]
            if slots:
                pool.abort(slots)

    def start(self) -> None:
        """Begin all loops on the running event loop."""
        for name, loop in (*self._own_loops(), *self._ownership_loops()):
            running = supervise(name, loop, self._clock, self._events)
            self._loops[name] = asyncio.create_task(running, name=f"tickwheel-{name}")

    def _ownership_loops(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        if self._shards is None:
            self.intake.adopt_all()
            return ()
        if self._ownership is None:
            raise RuntimeError("a scheduler of a cluster is joined to an ownership side before it starts")
        self.feed = feed = Feed(
            shards=self._shards,
            groups=self._groups,
            clock=self._clock,
            on_session_lost=self._safety_net.start_over,
            window_ms=self.buffering.feed_ms,
            poll_ms=self._settings.feed_poll_ms,
        )
        pairs = Pairs(
            shards=self._shards,
            holdings=self.holdings,
            intake=self.intake,
            groups=self._groups,
            clock=self._clock,
        )
        return (("feed", feed.run), ("pairs", partial(pairs.run, self._ownership)))

    def _own_loops(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        return (
            ("slices", self._slices.run),
            ("ticker", self._ticker.run),
            ("claims", self._claims.run),
            ("completion", self.completions.run),
            ("heartbeats", self._heartbeats.run),
            ("lease guard", self._heartbeats.guard),
            ("reaper", self._reaper.run),
            *self.elsewhere.loops(),
            ("parked", partial(self.parked.run, self._wake_claims)),
            ("gates", partial(self.gate.run, self._wake_claims)),
            ("limits", self.limits.run),
            ("tenant gate", self.tenants.run),
            ("sweeper", self._sweeper.run),
            ("chain check", self._chain_check.run),
            ("safety net", self._safety_net.run),
            ("clock watch", self._clock_watch.run),
            *self.buffering.loops(self._store, self._groups, self.intake.resolved_ms),
        )

    async def drain(self, grace_ms: int) -> None:
        """Stop claiming, let attempts end within `grace_ms`, hand the rest back, commit, stop the loops.

        Leases are renewed and cancels obeyed meanwhile. What is still uncommitted after a further
        `DRAIN_MARGIN_MS` is left to the next start, which finds it in flight and claims it again.
        """
        self._claims.stop()
        await wait_at_most(self._claims.settled(), DRAIN_MARGIN_MS, self._clock)
        await asyncio.gather(*(pool.executor.aclose(grace_ms) for pool in self.pools))
        await wait_at_most(self.completions.flushed(), DRAIN_MARGIN_MS, self._clock)
        for loop in self._loops.values():
            loop.cancel()
        await asyncio.gather(*self._loops.values(), return_exceptions=True)
        self._loops.clear()
        await self.elsewhere.aclose()
        await self.buffering.aclose()

    def _held(self) -> set[tuple[bytes, int, int]]:
        """The attempts of this process that still hold their lease, by the monotonic clock."""
        since_ms = self._clock.monotonic_ms() - stop_after_ms(self._settings.lease_ms)
        return {key for pool in self.pools for key in pool.inflight.held(since_ms)}

    def _has_room(self) -> bool:
        return len(self.wheel) + sum(map(len, self._crowds)) < self._settings.armed_limit

    def _held_shards(self) -> Sequence[int] | None:
        """None: all, for this process is alone on its store."""
        return None if self._shards is None else self.holdings.shards()

    def _oldest_unresolved_ms(self) -> int:
        if self._shards is None:
            return 0
        return min((pair.ack_ms for pair in self.intake.pairs(self.holdings.shards()).values()), default=0)

    def _wake_claims(self) -> None:
        self._claims.wake()
