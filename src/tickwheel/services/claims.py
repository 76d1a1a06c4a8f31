"""From due timers to committed claims: takes what has a free slot, plans it, claims it, hands it over.

A claim batch is one transaction: it inserts the ledger rows (which *is* the claim), starts retries that wait, and
writes the next timer of each recurring job with the occurrence that it won. One batch is under way at a time, so
two claims of one job never race and its tokens commit in order.

What the verdicts mean here: WON starts; RESOLVED and SKIPPED are done with; IN_FLIGHT goes to the reaper's watch;
NOT_DUE and BUFFERED are armed again; UNRESOLVED waits a little. A claim whose fate is unknown (the connection
broke while committing) is claimed again; a row that then shows a token of that batch is ours and never started.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, Bools, ClaimVerdict, Ints, Rows
from tickwheel.domain.errors import OutcomeUnknown
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ClaimsAnswered, EventSink
from tickwheel.ports.store import Store, WorkDefinition
from tickwheel.services.attempts import Pool, Sent
from tickwheel.services.completion import Completions
from tickwheel.services.host_gate import HostGate
from tickwheel.services.parked import Parked
from tickwheel.services.plans import Plan, Planner
from tickwheel.services.ready import ReadyRing, kinds_of
from tickwheel.services.reaper import Reaper
from tickwheel.services.starts import Starter
from tickwheel.services.tokens import Tokens

BATCH_TIMERS: Final = 512
LANE_SHARE: Final = 32
"""So many of a batch may be of one lane whatever waits in the others, if it has slots of its own."""


class Claims:
    """The claiming loop of one process."""

    def __init__(
        self,
        *,
        store: Store,
        ready: ReadyRing,
        parked: Parked,
        gate: HostGate,
        pools: Sequence[Pool],
        planner: Planner,
        starter: Starter,
        completions: Completions,
        reaper: Reaper,
        tokens: Tokens,
        worker: str,
        clock: Clock,
        events: EventSink,
        arm: Callable[[Rows], None],
        lease_length_ms: int,
    ) -> None:
        self._store, self._ready, self._parked, self._pools = store, ready, parked, pools
        self._gate = gate
        self._planner, self._starter = planner, starter
        self._completions, self._reaper = completions, reaper
        self._tokens, self._worker = tokens, worker
        self._clock, self._events, self._arm = clock, events, arm
        self._lease_length_ms = lease_length_ms
        self._wake = asyncio.Event()
        self.idle = asyncio.Event()  # set while no batch is under way
        self.idle.set()
        # Per run: tokens of its claims whose fate is unknown. (A token is unique in its shard only.)
        self._unknown: dict[tuple[bytes, int], set[int]] = {}
        self._stopped = self._turn = False

    def wake(self) -> None:
        """Something is due, or a slot is free."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more; a batch that is under way is still dealt with."""
        self._stopped = True

    async def run(self) -> None:
        """Claim for ever."""
        while True:
            timers = None if self._stopped or self._completions.full else self._collect()
            if timers is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self.idle.clear()
            try:
                await self._claim(timers)
            finally:
                self.idle.set()

    def _collect(self) -> Rows | None:
        """Take timers for which slots are free, highest lane first, and hold those slots.

        A batch has less room than there may be slots. So each lane takes a few into its own slots first, and the
        kinds begin in turn: a flood in one lane or kind fills no batch alone for long.
        """
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

    async def _claim(self, timers: Rows) -> None:
        fences: Ints = np.zeros(0, dtype=np.int64)
        answered = False
        plan: Plan | None = None
        started: Bools = np.zeros(len(timers), dtype=np.bool_)
        try:
            if self._tokens.exhausted:
                self._tokens = Tokens(await self._store.acquire(self._worker))
            works = await self._store.load_work(timers["job_id"].tolist())
            now_ms = self._clock.now_ms()
            plan = self._planner.plan(timers, works, now_ms)
            held = self._gate.admit(timers, plan.specs, plan.failed + plan.unserved)
            if plan.failed or plan.unserved or held:
                timers, works, plan = self._set_aside(timers, works, plan, held)
                started = np.zeros(len(timers), dtype=np.bool_)
            if not len(timers):
                answered = True
                return
            plan.claims["fence"] = fences = self._tokens.draw(timers["job_id"])
            sent = Sent(lease_ms=now_ms + self._lease_length_ms, mono_ms=self._clock.monotonic_ms())
            answers = await self._store.claim(plan.claims, now_ms, sent.lease_ms)
            answered = True
            self._tell(answers, sent)
            self._arm_what_follows(timers, plan.claims, answers)
            won = self._won(timers, answers)
            started = won
            await self._starter.start(timers, plan.specs, works, answers, won, sent)
        except OutcomeUnknown:
            if not answered:
                self._note_unknown(timers, fences)
            raise
        finally:
            if not answered:
                self._ready.push_back(timers)
            self._release(timers[~started])
            if plan is not None:
                self._gate.give_back(timers, plan.specs, np.flatnonzero(~started).tolist())

    def _set_aside(
        self, timers: Rows, works: Sequence[WorkDefinition | None], plan: Plan, held: list[int]
    ) -> tuple[Rows, Sequence[WorkDefinition | None], Plan]:
        """Park what could not be planned, forget what nobody here runs (the store has it); the rest goes on."""
        keep = np.ones(len(timers), dtype=np.bool_)
        keep[plan.failed + plan.unserved + held] = False
        self._parked.park(timers[plan.failed])
        self._release(timers[~keep])
        kept = np.flatnonzero(keep).tolist()
        specs = [plan.specs[i] for i in kept]
        return timers[keep], [works[i] for i in kept], Plan(plan.claims[keep], specs, [], [])

    def _arm_what_follows(self, timers: Rows, claims: Rows, answers: Rows) -> None:
        """Arm next occurrences, re-checks of buffered runs and early timers; send the rest where it belongs."""
        verdict = answers["verdict"]
        wrote_row = (
            (verdict == ClaimVerdict.WON) | (verdict == ClaimVerdict.SKIPPED) | (verdict == ClaimVerdict.BUFFERED)
        )
        follows = wrote_row & (timers["gen"] > 0) & (claims["next_ms"] >= 0)
        if follows.any():
            upcoming = timers[follows].copy()
            upcoming["due_ms"] = upcoming["scheduled_ms"] = claims["next_ms"][follows]
            self._arm(upcoming)
        buffered = verdict == ClaimVerdict.BUFFERED
        if buffered.any():
            again = timers[buffered].copy()
            again["due_ms"] = answers["lease_ms"][buffered]
            again["gen"] = np.where(again["gen"] > 0, -1, again["gen"] - 1)
            self._arm(again)
        early = verdict == ClaimVerdict.NOT_DUE
        if early.any():
            self._arm(timers[early])
        unresolved = (verdict == ClaimVerdict.UNRESOLVED) | (verdict == ClaimVerdict.DEPOSED)
        if unresolved.any():
            self._parked.park(timers[unresolved])

    def _won(self, timers: Rows, answers: Rows) -> Bools:
        """Which rows are ours to start; runs that another token holds go to the reaper."""
        won: Bools = answers["verdict"] == ClaimVerdict.WON
        for number in np.flatnonzero(answers["verdict"] == ClaimVerdict.IN_FLIGHT):
            job_id, fence = timers["job_id"][number].tobytes(), int(answers["fence"][number])
            scheduled_ms = int(timers["scheduled_ms"][number])
            ours = self._unknown.get((job_id, scheduled_ms), set())
            if fence in ours:
                ours.discard(fence)  # the same timer may be in the batch twice: one token, one start
                won[number] = True
                continue
            lease_ms = 0 if self._tokens.is_older(job_id, fence) else int(answers["lease_ms"][number])
            self._reaper.watch(job_id, scheduled_ms, fence, lease_ms)
        if self._unknown:
            for key in _run_keys(timers):
                self._unknown.pop(key, None)
        return won

    def _note_unknown(self, timers: Rows, fences: Ints) -> None:
        for key, fence in zip(_run_keys(timers), fences.tolist(), strict=False):
            self._unknown.setdefault(key, set()).add(fence)

    def _tell(self, answers: Rows, sent: Sent) -> None:
        counts = np.bincount(answers["verdict"], minlength=len(ClaimVerdict)).astype(np.int64)
        took_ms = self._clock.monotonic_ms() - sent.mono_ms
        self._events.emit(ClaimsAnswered(verdicts=counts, took_ms=took_ms))

    def _release(self, timers: Rows) -> None:
        """Give back the slots that were held for these timers."""
        if not len(timers):
            return
        kinds, lanes = kinds_of(timers), timers["flags"] & FLAG_LANE_MASK
        for kind, pool in enumerate(self._pools):
            by_lane = np.bincount(lanes[kinds == kind], minlength=LANE_COUNT)
            for lane in np.flatnonzero(by_lane):
                pool.slots.release(int(lane), int(by_lane[lane]))


def _run_keys(timers: Rows) -> list[tuple[bytes, int]]:
    return list(zip(timers["job_id"].tolist(), timers["scheduled_ms"].tolist(), strict=True))
