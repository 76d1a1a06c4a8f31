"""What is to be claimed next: takes due timers for which slots are free, reads their definitions, plans them.

Nothing of it is written anywhere, so a batch may be prepared while another one is being claimed. Between its
preparation and its claim shards may leave, or fall silent because they are about to: `keep_held` sorts their
timers out, once more, right before the claim.

Timers of shards that are not held any more are dropped where they come up. A shard that is about to be handed over
is silent: its timers stay in memory, unclaimed, until it is dropped.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store
from tickwheel.services.attempts import Pool
from tickwheel.services.claim_batch import ClaimBatch, release_slots
from tickwheel.services.gates.host_gate import HostGate
from tickwheel.services.gates.limit_gate import LimitGate
from tickwheel.services.gates.tenant_gate import TenantGate
from tickwheel.services.ownership.holdings import NOT_HELD, Holdings
from tickwheel.services.ownership.unresolved import Unserved
from tickwheel.services.parked import Parked
from tickwheel.services.plans import Plan, Planner
from tickwheel.services.ready import ReadyRing
from tickwheel.services.remote.elsewhere import Elsewhere
from tickwheel.services.remote.queued_batch import QueuedBatch
from tickwheel.services.shares import FreeSlots
from tickwheel.services.slot_holders import slots_held

BATCH_TIMERS: Final = 1_000
FEW_TIMERS: Final = 128
"""The same while a tenant with few runs is there beside one with many: a batch is what the few wait for."""
LANE_SHARE: Final = 32
"""So many of a batch may be of one lane whatever waits in the others, if it has slots of its own."""
UNKNOWN_PAUSE_MS: Final = 250
"""How long a timer of which nobody is known to run the target waits while it is not known who runs what."""


class ClaimPreparation:
    """Makes batches; the slots, and the places at the hosts, of their timers are held from then on."""

    def __init__(
        self,
        *,
        store: Store,
        holdings: Holdings,
        ready: ReadyRing,
        parked: Parked,
        unserved: Unserved,
        gate: HostGate,
        pools: Sequence[Pool],
        planner: Planner,
        elsewhere: Elsewhere,
        limits: LimitGate,
        tenants: TenantGate,
        clock: Clock,
    ) -> None:
        self._store, self._holdings, self._ready = store, holdings, ready
        self._parked, self._unserved, self._gate = parked, unserved, gate
        self._pools, self._planner, self._clock = pools, planner, clock
        self._elsewhere, self._limits, self._tenants = elsewhere, limits, tenants
        self._open: list[ClaimBatch | QueuedBatch] = []
        self._spilling: Rows = empty(TIMER)
        self._queued_first = False
        self._silent: Bools = np.zeros(SHARD_COUNT, dtype=np.bool_)
        self._turn = False
        for kind, pool in enumerate(pools):
            pool.on_took = partial(ready.note_ended, kind)

    def silence(self, shards: Sequence[int]) -> None:
        """Leave these shards out, until they are held under another epoch."""
        self._silent[list(shards)] = True

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or begin anew."""
        self._silent[list(shards)] = False
        self._limits.forget(shards)
        self._tenants.forget(shards)
        self._gate.forget(shards)

    def rows(self) -> Rows:
        """The timers of all batches that are not closed."""
        held = [batch.timers for batch in self._open]
        if len(self._spilling):
            held.append(self._spilling)
        if not held:
            return empty(TIMER)
        return held[0] if len(held) == 1 else np.concatenate(held)

    async def prepare(self) -> ClaimBatch | QueuedBatch | None:
        """A planned batch, maybe empty, which its taker has to `close`; None: nothing that waits has a slot.

        Work for here and work for elsewhere take turns.
        """
        if not self._elsewhere.is_busy():
            return await self._prepare_here()
        self._queued_first = not self._queued_first
        for queued in (self._queued_first, not self._queued_first):
            batch = await (self._prepare_queued() if queued else self._prepare_here())
            if batch is not None:
                return batch
        return None

    async def _prepare_queued(self) -> QueuedBatch | None:
        await self._spill()
        looked = await self._look_for_others()
        batch = self._elsewhere.take(BATCH_TIMERS)
        if batch is None:
            if not looked:
                return None
            batch = QueuedBatch([], self._elsewhere.backlog)  # there may be more to look at
        self._open.append(batch)
        try:
            batch.let_go(self._may_be_claimed(batch.timers))
            works = await self._store.load_work(batch.timers["job_id"].tolist())
            plan = self._planner.plan(batch.timers, works, self._clock.now_ms(), queued=True)
            self._parked.park(batch.timers[plan.failed])
            self._ready.push(batch.timers[plan.unserved])  # edited since: sorted anew
            batch.admit(works, plan)
            misrouted = self._elsewhere.misrouted(batch)
            if misrouted.any():
                self._ready.push(batch.timers[misrouted])
                batch.let_go(~misrouted)
            await self._keep_within_limits(batch)
        except BaseException:  # a cancellation as well
            self.close(batch)
            raise
        return batch

    async def _spill(self) -> None:
        """Give what waits here for slots, all of which are taken, to workers elsewhere that have some."""
        spilling = self._take_spilling()
        if not len(spilling):
            return
        plan = await self._read(spilling, queued=True)
        goes = np.array([spec is not None for spec in plan.specs], dtype=np.bool_)
        goes[plan.failed + plan.unserved] = False
        self._elsewhere.keep(spilling, plan, np.flatnonzero(goes).tolist())
        self._ready.push_back(spilling[~goes])

    async def _look_for_others(self) -> bool:
        """Find runs that only workers do among those that wait for slots here; whether any was looked at.

        Which of them a timer stands for is in its definition, and that is else read for a free slot: a worker
        would idle because this process is full. So each is read twice, but only while a worker could do more.
        """
        looked = self._take_unsorted()
        if not len(looked):
            return False
        plan = await self._read(looked, queued=False)
        self._elsewhere.keep(looked, plan, plan.elsewhere)
        stays = np.ones(len(looked), dtype=np.bool_)
        stays[plan.elsewhere] = False
        self._ready.push_sorted(looked[stays])
        return True

    async def _read(self, timers: Rows, *, queued: bool) -> Plan:
        """Plan timers that wait for slots here; if that fails they wait on."""
        self._spilling = timers
        try:
            works = await self._store.load_work(timers["job_id"].tolist())
            return self._planner.plan(timers, works, self._clock.now_ms(), queued=queued)
        except BaseException:
            self._ready.push_back(timers)
            raise
        finally:
            self._spilling = empty(TIMER)

    def _full_lanes(self) -> Iterable[tuple[int, int]]:
        """Kind and lane where something waits and no slot is free."""
        for kind, pool in enumerate(self._pools):
            for lane in range(LANE_COUNT):
                if self._ready.count(kind, lane) and not pool.slots.free(lane):
                    yield kind, lane

    def _take_unsorted(self) -> Rows:
        taken = [
            self._ready.take_unsorted(kind, lane, BATCH_TIMERS)
            for kind, lane in self._full_lanes()
            if self._elsewhere.has_room_for_others(kind, lane)
        ]
        return np.concatenate(taken) if taken else empty(TIMER)

    def _take_spilling(self) -> Rows:
        taken = []
        for kind, lane in self._full_lanes():
            room = min(BATCH_TIMERS, self._elsewhere.spill_room(kind, lane))
            if room:
                taken.append(self._ready.take(kind, lane, room))
        return np.concatenate(taken) if taken else empty(TIMER)

    async def _prepare_here(self) -> ClaimBatch | None:
        timers = self._collect()
        if timers is None:
            return None
        batch = ClaimBatch(timers, pools=self._pools, gate=self._gate, ready=self._ready)
        self._open.append(batch)
        try:
            await self._plan(batch)
        except BaseException:  # a cancellation as well
            self.close(batch)
            raise
        return batch

    def close(self, batch: ClaimBatch | QueuedBatch) -> None:
        """Give everything back that was neither started nor let go."""
        batch.close()
        self._open.remove(batch)

    def answered(self, batch: ClaimBatch | QueuedBatch, answers: Rows) -> None:
        """Tell the gates what became of the batch."""
        self._tenants.answered(batch.claims, batch.works, answers)
        if batch.claims["limited"].any():
            self._limits.answered(batch.timers, batch.claims, batch.works, batch.specs, answers)

    def keep_held(self, batch: ClaimBatch | QueuedBatch) -> None:
        """Timers that may not be claimed any more leave the batch."""
        if len(batch):
            batch.let_go(self._may_be_claimed(batch.timers))

    def _collect(self) -> Rows | None:
        """Take timers for which slots are free, highest lane first, and hold those slots.

        A batch has less room than there may be slots. So each lane takes a few into its own slots first, and the
        kinds begin in turn: a flood in one lane or kind fills no batch alone for long.
        """
        while len(self._ready):
            taken = self._take()
            if taken is None:
                return None
            keep = self._may_be_claimed(taken)
            if keep.all():
                return taken
            release_slots(self._pools, taken[~keep])
            if keep.any():
                return taken[keep]
        return None

    def _take(self) -> Rows | None:
        now_ms, mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        taken, room = list[Rows](), FEW_TIMERS if self._ready.serves_few(mono_ms) else BATCH_TIMERS
        kinds = sorted(range(len(self._pools)), reverse=self._turn)
        self._turn = not self._turn
        for own in (True, False):
            for kind in kinds:
                slots = self._pools[kind].slots
                for lane in slots.order(self._ready.oldest_due_ms(kind, rough=slots.reserving), now_ms):
                    free = slots.free(lane)
                    limit = min(LANE_SHARE, slots.kept(lane)) if own else free
                    shared = FreeSlots(free, mono_ms, partial(self._held, kind, lane))
                    timers = self._ready.take(kind, lane, min(room, limit), shared)
                    slots.take(lane, len(timers))
                    room -= len(timers)
                    if len(timers):
                        taken.append(timers)
        if not taken:
            return None
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _held(self, kind: int, lane: int) -> Ints:
        return slots_held(
            self._pools[kind].inflight, [b for b in self._open if isinstance(b, ClaimBatch)], kind, lane
        )

    def _may_be_claimed(self, timers: Rows) -> Bools:
        """Those of shards that are held and not silent; the silent ones are parked."""
        shards = shards_of(timers["job_id"])
        held = self._holdings.epochs[shards] != NOT_HELD
        silent = self._silent[shards]
        if silent.any():
            self._parked.park(timers[held & silent])
        may: Bools = held & ~silent
        return may

    async def _plan(self, batch: ClaimBatch) -> None:
        """Read the definitions; what can't be claimed now leaves the batch."""
        works = await self._store.load_work(batch.timers["job_id"].tolist())
        held = self._holdings.holds(batch.timers["job_id"])  # a shard may have left meanwhile
        if not held.all():
            works = [works[i] for i in np.flatnonzero(held).tolist()]
            batch.let_go(held)
        plan = self._planner.plan(batch.timers, works, self._clock.now_ms())
        self._parked.park(batch.timers[plan.failed])
        if plan.elsewhere:
            self._elsewhere.keep(batch.timers, plan, plan.elsewhere)
        unserved = batch.admit(works, plan)
        if self._elsewhere.is_known:
            self._unserved.note(unserved)
        else:  # who serves what was not read yet
            self._parked.park(unserved, UNKNOWN_PAUSE_MS)
        await self._keep_within_limits(batch)

    async def _keep_within_limits(self, batch: ClaimBatch | QueuedBatch) -> None:
        if self._tenants.guards:
            batch.let_go(await self._tenants.admit(batch.timers, batch.claims, batch.works))
        if batch.claims["limited"].any():
            goes = await self._limits.admit(batch.timers, batch.claims, batch.works, batch.specs)
            self._tenants.give_back(batch.works, np.flatnonzero(~goes).tolist())
            batch.let_go(goes)
