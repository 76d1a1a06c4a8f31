"""The timers of one claim, each with the slot that is held for it and its place at its host.

Whatever happens to a claim, each timer of it ends in one of four ways, and its slot and place with it: *started*
(the attempt has them now), *let go* (dealt with, or somebody else's), *kept elsewhere* (parked, held for its
host), or *back in the ready ring*, where `close` puts all that is left when the store has not answered.
"""

from collections.abc import Sequence

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, TIMER, Bools, Rows, empty
from tickwheel.domain.job import Spec
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.store import WorkDefinition
from tickwheel.services.attempts import Pool
from tickwheel.services.gates.host_gate import HostGate
from tickwheel.services.plans import Plan
from tickwheel.services.ready import ReadyRing, kinds_of


class ClaimBatch:
    """TIMER rows and what is known of each, in one order. The slots are held already."""

    queued = False

    def __init__(self, timers: Rows, *, pools: Sequence[Pool], gate: HostGate, ready: ReadyRing) -> None:
        self._pools, self._gate, self._ready = pools, gate, ready
        self.timers = timers
        self.works: Sequence[WorkDefinition | None] = []
        self.specs: Sequence[Spec | None] = []
        self.claims: Rows = empty(TIMER)
        self.started: Bools = np.zeros(len(timers), dtype=np.bool_)
        self.answered = False
        self._admitted = False

    def __len__(self) -> int:
        return len(self.timers)

    def admit(self, works: Sequence[WorkDefinition | None], plan: Plan) -> Rows:
        """Take in the plan and a place for each webhook; timers that find none wait at the gate.

        What is not claimed now leaves the batch with its slot: gives the rows whose target nothing here runs.
        """
        unserved = self.timers[plan.unserved]
        left_out = plan.failed + plan.unserved + plan.elsewhere
        held = self._gate.admit(self.timers, plan.specs, left_out, plan.skips(self.timers))
        self.works, self.specs, self.claims, self._admitted = works, plan.specs, plan.claims, True
        keep = np.ones(len(self.timers), dtype=np.bool_)
        keep[left_out + held] = False
        if not keep.all():
            _release(self._pools, self.timers[~keep])
            self._cut(keep)
        return unserved

    def let_go(self, keep: Bools) -> None:
        """Rows where `keep` is false leave the batch before it is claimed."""
        if keep.all():
            return
        _release(self._pools, self.timers[~keep])
        if self._admitted:
            self._gate.give_back(self.timers, self.specs, np.flatnonzero(~keep).tolist())
        self._cut(keep)

    def close(self) -> None:
        """Give everything back that was neither started nor let go."""
        if not self.answered and len(self.timers):
            self._ready.push_back(self.timers)
        left = ~self.started
        _release(self._pools, self.timers[left])
        if self._admitted:
            self._gate.give_back(self.timers, self.specs, np.flatnonzero(left).tolist())
        self.timers, self.started, self._admitted = self.timers[:0], self.started[:0], False

    def _cut(self, keep: Bools) -> None:
        self.timers, self.started = self.timers[keep], self.started[keep]
        if self._admitted:
            kept = np.flatnonzero(keep).tolist()
            self.works, self.specs = [self.works[i] for i in kept], [self.specs[i] for i in kept]
            self.claims = self.claims[keep]


def _release(pools: Sequence[Pool], timers: Rows) -> None:
    """Give back the slots that were held for these timers."""
    if not len(timers):
        return
    kinds, lanes = kinds_of(timers), timers["flags"] & FLAG_LANE_MASK
    for kind, pool in enumerate(pools):
        by_lane = np.bincount(lanes[kinds == kind], minlength=LANE_COUNT)
        for lane in np.flatnonzero(by_lane):
            pool.slots.release(int(lane), int(by_lane[lane]))


def release_slots(pools: Sequence[Pool], timers: Rows) -> None:
    """Give back the slots of timers that never got into a batch."""
    _release(pools, timers)
