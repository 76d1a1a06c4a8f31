"""What is to be claimed next: takes due timers for which slots are free, reads their definitions, plans them.

Nothing of it is written anywhere, so a batch may be prepared while another one is being claimed. Between its
preparation and its claim shards may leave, or fall silent because they are about to: `keep_held` sorts their
timers out, once more, right before the claim.

Timers of shards that are not held any more are dropped where they come up. A shard that is about to be handed over
is silent: its timers stay in memory, unclaimed, until it is dropped.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Bools, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store
from tickwheel.services.attempts import Pool
from tickwheel.services.claim_batch import ClaimBatch, release_slots
from tickwheel.services.gates.host_gate import HostGate
from tickwheel.services.ownership.holdings import NOT_HELD, Holdings
from tickwheel.services.ownership.unresolved import Unserved
from tickwheel.services.parked import Parked
from tickwheel.services.plans import Planner
from tickwheel.services.ready import ReadyRing

BATCH_TIMERS: Final = 1_000
LANE_SHARE: Final = 32
"""So many of a batch may be of one lane whatever waits in the others, if it has slots of its own."""


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
        clock: Clock,
    ) -> None:
        self._store, self._holdings, self._ready = store, holdings, ready
        self._parked, self._unserved, self._gate = parked, unserved, gate
        self._pools, self._planner, self._clock = pools, planner, clock
        self._open: list[ClaimBatch] = []
        self._silent: Bools = np.zeros(SHARD_COUNT, dtype=np.bool_)
        self._turn = False

    def silence(self, shards: Sequence[int]) -> None:
        """Leave these shards out, until they are held under another epoch."""
        self._silent[list(shards)] = True

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or begin anew."""
        self._silent[list(shards)] = False

    def rows(self) -> Rows:
        """The timers of all batches that are not closed."""
        held = [batch.timers for batch in self._open]
        if not held:
            return empty(TIMER)
        return held[0] if len(held) == 1 else np.concatenate(held)

    async def prepare(self) -> ClaimBatch | None:
        """A planned batch, maybe empty, which its taker has to `close`; None: nothing that waits has a slot."""
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

    def close(self, batch: ClaimBatch) -> None:
        """Give everything back that was neither started nor let go."""
        batch.close()
        self._open.remove(batch)

    def keep_held(self, batch: ClaimBatch) -> None:
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
        now_ms, taken, room = self._clock.now_ms(), list[Rows](), BATCH_TIMERS
        kinds = sorted(range(len(self._pools)), reverse=self._turn)
        self._turn = not self._turn
        for own in (True, False):
            for kind in kinds:
                slots = self._pools[kind].slots
                for lane in slots.order(self._ready.oldest_due_ms(kind), now_ms):
                    limit = min(LANE_SHARE, slots.kept(lane)) if own else slots.free(lane)
                    timers = self._ready.take(kind, lane, min(room, limit))
                    slots.take(lane, len(timers))
                    room -= len(timers)
                    if len(timers):
                        taken.append(timers)
        if not taken:
            return None
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

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
        self._unserved.note(batch.admit(works, plan))
