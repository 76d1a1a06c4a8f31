"""From due timers to committed claims: claims prepared batches, one after another, and hands over what was won.

A claim batch is one transaction: it inserts the ledger rows (which *is* the claim), starts retries that wait, and
writes the next timer of each recurring job with the occurrence that it won. One claim is under way at a time, so
two claims of one job never race and its tokens commit in order. Where much waits, the next batch is prepared
meanwhile (`claim_preparation`), and is claimed while the answers to the one before are dealt with; where little
waits neither is done, for a batch is the longer the later it is begun.

What the verdicts mean here: WON starts; RESOLVED and SKIPPED are done with; IN_FLIGHT goes to the reaper's
watch; BUFFERED is armed again; LIMITED waits at the gate of its limits; NOT_DUE (the store's clock is behind) and
UNRESOLVED wait a little. DEPOSED says that the shard is another's: it is dropped with everything in memory about
it, and nothing of it is resolved by that. A claim whose fate is unknown (the connection broke while committing) is
claimed again; a row that then shows a token of that batch is ours and never started.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, Bools, ClaimVerdict, Ints, Rows
from tickwheel.domain.errors import OutcomeUnknown
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import shard_of
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.run import FENCE_SEQUENCE_BITS
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ClaimsAnswered, EventSink, RunsQueued
from tickwheel.ports.store import Store
from tickwheel.services.attempts import Pool, Sent
from tickwheel.services.claim_batch import ClaimBatch
from tickwheel.services.claim_preparation import ClaimPreparation
from tickwheel.services.completion import Completions
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.holdings import NOT_HELD, Holdings
from tickwheel.services.ownership.intake import OwnershipSide
from tickwheel.services.parked import Parked
from tickwheel.services.ready import ReadyRing
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote.elsewhere import Elsewhere
from tickwheel.services.remote.queued_batch import QueuedBatch
from tickwheel.services.starts import Starter
from tickwheel.services.tokens import Tokens

AHEAD_TIMERS: Final = 500
"""When so many wait, the next batch is prepared while one is being claimed."""
NOT_DUE_PAUSE_MS: Final = 50
"""How long a timer waits that is due by this process's clock and not by the store's."""


class _Answered(NamedTuple):
    """A claim that is committed, and is not dealt with yet."""

    batch: ClaimBatch | QueuedBatch
    answers: Rows
    sent: Sent


class Claims:
    """The claiming loop of one process. `ownership` stays None where it is alone on its store."""

    def __init__(
        self,
        *,
        store: Store,
        holdings: Holdings,
        groups: Groups,
        ready: ReadyRing,
        parked: Parked,
        preparation: ClaimPreparation,
        pools: Sequence[Pool],
        starter: Starter,
        elsewhere: Elsewhere,
        completions: Completions,
        reaper: Reaper,
        worker: str,
        clock: Clock,
        events: EventSink,
        lease_length_ms: int,
    ) -> None:
        self._store, self._holdings, self._groups = store, holdings, groups
        self._ready, self._parked, self._preparation = ready, parked, preparation
        self._pools, self._starter, self._elsewhere = pools, starter, elsewhere
        self._completions, self._reaper = completions, reaper
        self._tokens, self._worker = Tokens(holdings), worker
        self._clock, self._events = clock, events
        self._lease_length_ms = lease_length_ms
        self.ownership: OwnershipSide | None = None
        self._wake = asyncio.Event()
        self._begun = self._done = 0  # claims that were ever sent; of these: dealt with
        self._progress = asyncio.Event()
        self._settling: asyncio.Task[None] | None = None  # the claim whose answers are dealt with beside the next
        # Per run: tokens of its claims whose fate is unknown, and whether they were queued. (A token is unique in
        # its shard only.)
        self._unknown: dict[tuple[bytes, int], dict[int, bool]] = {}
        self._stopped = False

    @property
    def much_waits(self) -> bool:
        """Whether there is more to claim than can be done at once, and nobody with little waits behind it."""
        if len(self._ready) < AHEAD_TIMERS or self._stopped:
            return False
        return not self._ready.serves_few(self._clock.monotonic_ms())

    def wake(self) -> None:
        """Something is due, or a slot is free."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more; a claim that is under way is still dealt with."""
        self._stopped = True

    def silence(self, shards: Sequence[int]) -> None:
        """Claim nothing more of these shards, until they are held under another epoch."""
        self._preparation.silence(shards)

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left, or begin anew."""
        self._preparation.forget(shards)
        if self._unknown:
            gone = set(shards)
            self._unknown = {key: held for key, held in self._unknown.items() if shard_of(key[0]) not in gone}

    def rows(self) -> Rows:
        """The timers that are being claimed, or prepared for it."""
        return self._preparation.rows()

    async def settled(self) -> None:
        """Wait until all claims that were sent before this call are dealt with."""
        goal = self._begun
        while self._done < goal:
            self._progress.clear()
            await self._progress.wait()

    async def run(self) -> None:
        """Claim for ever."""
        try:
            while True:
                batch = await self._prepare()
                if batch is None:
                    await self._wait_for_settling()
                    await self._wake.wait()
                while batch is not None:
                    batch = await self._claim(batch)
        except asyncio.CancelledError:
            if self._settling is not None:
                self._settling.cancel()
                await asyncio.gather(self._settling, return_exceptions=True)
            raise

    async def _prepare(self) -> ClaimBatch | QueuedBatch | None:
        self._wake.clear()  # before the look, so that whatever comes after it is not missed
        return None if self._stopped or self._completions.full else await self._preparation.prepare()

    async def _claim(self, batch: ClaimBatch | QueuedBatch) -> ClaimBatch | QueuedBatch | None:
        """Claim a batch, and see to its answers; gives the next one, if it was prepared meanwhile."""
        ahead = asyncio.create_task(self._prepare()) if self.much_waits else None
        try:
            answered = await self._send(batch)
            if answered is not None:
                await self._settle_in_turn(answered, beside_next=ahead is not None)
            return None if ahead is None else await ahead
        except BaseException:
            if ahead is not None:
                await self._give_up(ahead)
            raise

    async def _give_up(self, ahead: "asyncio.Task[ClaimBatch | QueuedBatch | None]") -> None:
        """What was prepared, or will have been, goes back to where it waits."""
        ahead.cancel()
        [prepared] = await asyncio.gather(ahead, return_exceptions=True)
        if isinstance(prepared, ClaimBatch | QueuedBatch):
            self._preparation.close(prepared)

    async def _send(self, batch: ClaimBatch | QueuedBatch) -> _Answered | None:
        """Claim; None, and the batch is closed, where nothing of it may be claimed any more."""
        try:
            if not self._stopped:
                await self._renew_epochs(batch)
                self._preparation.keep_held(batch)
                if len(batch):
                    return await self._ask(batch)
        except BaseException:
            self._preparation.close(batch)
            raise
        self._preparation.close(batch)
        return None

    async def _renew_epochs(self, batch: ClaimBatch | QueuedBatch) -> None:
        exhausted = self._tokens.exhausted()
        if not exhausted:
            return
        if self.ownership is None:
            self._holdings.adopt_all(await self._store.acquire(self._worker))
            return
        self.ownership.exhausted(exhausted)
        used_up = np.isin(shards_of(batch.timers["job_id"]), exhausted)
        self._parked.park(batch.timers[used_up])
        batch.let_go(~used_up)

    async def _ask(self, batch: ClaimBatch | QueuedBatch) -> _Answered:
        now_ms = self._clock.now_ms()
        batch.claims["fence"] = fences = self._tokens.draw(batch.timers["job_id"])
        sent = Sent(lease_ms=now_ms + self._lease_length_ms, mono_ms=self._clock.monotonic_ms())
        self._begun += 1
        try:
            answers = await self._store.claim(batch.claims, now_ms, sent.lease_ms, queued=batch.queued)
            return _Answered(batch, answers, sent)
        except BaseException as error:
            if isinstance(error, OutcomeUnknown):
                self._note_unknown(batch, fences)
            self._count_done()
            raise

    def _count_done(self) -> None:
        self._done += 1
        self._progress.set()

    async def _settle_in_turn(self, answered: _Answered, *, beside_next: bool) -> None:
        """Deal with these answers once those before are dealt with, even if that failed."""
        try:
            await self._wait_for_settling()
        finally:
            self._settling = asyncio.create_task(self._settle(answered))
        if not beside_next:
            await self._wait_for_settling()

    async def _wait_for_settling(self) -> None:
        settling, self._settling = self._settling, None
        if settling is not None:
            await settling

    async def _settle(self, answered: _Answered) -> None:
        batch, answers, sent = answered
        try:
            batch.answered = True
            self._tell(batch.timers, answers, sent)
            self._arm_what_follows(batch, answers)
            self._put_off(batch, answers)
            self._preparation.answered(batch, answers)
            batch.started = won = self._won(batch, answers)
            if isinstance(batch, QueuedBatch):
                self._elsewhere.publish(batch, answers["fence"], won)
                self._tell_queued(batch, answers, won, sent)
            else:
                await self._starter.start(batch.timers, batch.claims, batch.specs, batch.works, answers, won, sent)
        finally:
            self._preparation.close(batch)
            self._count_done()

    def _arm_what_follows(self, batch: ClaimBatch | QueuedBatch, answers: Rows) -> None:
        """Arm next occurrences and re-checks of buffered runs."""
        timers, next_ms, verdict = batch.timers, batch.claims["next_ms"], answers["verdict"]
        wrote_row = (
            (verdict == ClaimVerdict.WON) | (verdict == ClaimVerdict.SKIPPED) | (verdict == ClaimVerdict.BUFFERED)
        )
        follows = wrote_row & (timers["gen"] > 0) & (next_ms >= 0)
        if follows.any():
            upcoming = timers[follows].copy()
            upcoming["due_ms"] = upcoming["scheduled_ms"] = next_ms[follows]
            self._groups.arm(upcoming)
        buffered = verdict == ClaimVerdict.BUFFERED
        if buffered.any():
            again = timers[buffered].copy()
            again["due_ms"] = answers["lease_ms"][buffered]
            again["gen"] = np.where(again["gen"] > 0, -1, again["gen"] - 1)
            self._groups.arm(again)

    def _put_off(self, batch: ClaimBatch | QueuedBatch, answers: Rows) -> None:
        """Timers that stay as they are: early ones, those of which nothing was learned, those that are lost."""
        timers, verdict = batch.timers, answers["verdict"]
        early = verdict == ClaimVerdict.NOT_DUE
        if early.any():
            by_ours = timers["due_ms"] <= self._clock.now_ms()
            self._parked.park(timers[early & by_ours], NOT_DUE_PAUSE_MS)
            self._groups.arm_again(timers[early & ~by_ours])
        unresolved = verdict == ClaimVerdict.UNRESOLVED
        if unresolved.any():
            self._tokens.rise_above(timers["job_id"][unresolved], answers["fence"][unresolved])
            self._parked.park(timers[unresolved])
        deposed = verdict == ClaimVerdict.DEPOSED
        if deposed.any():
            self._lose(timers[deposed], batch.claims["fence"][deposed])

    def _lose(self, timers: Rows, fences: Ints) -> None:
        if self.ownership is None:
            self._parked.park(timers)
            return
        shards = shards_of(timers["job_id"])
        epochs = fences >> FENCE_SEQUENCE_BITS
        self.ownership.lost(dict(zip(shards.tolist(), epochs.tolist(), strict=True)))
        # A shard that was taken anew while the claim was under way is ours: the answer was about its old epoch.
        ours = self._holdings.epochs[shards] != NOT_HELD
        if ours.any():
            self._ready.push_back(timers[ours])

    def _won(self, batch: ClaimBatch | QueuedBatch, answers: Rows) -> Bools:
        """Which rows are ours to start; runs that another token holds go to the reaper."""
        timers = batch.timers
        won: Bools = answers["verdict"] == ClaimVerdict.WON
        for number in np.flatnonzero(answers["verdict"] == ClaimVerdict.IN_FLIGHT):
            job_id, fence = timers["job_id"][number].tobytes(), int(answers["fence"][number])
            scheduled_ms = int(timers["scheduled_ms"][number])
            ours = self._unknown.get((job_id, scheduled_ms), {})
            if ours.get(fence) is batch.queued:  # what was queued starts elsewhere only, and the other way round
                del ours[fence]  # the same timer may be in the batch twice: one token, one start
                won[number] = True
            elif not self._runs_here(job_id, scheduled_ms, fence):
                lease_ms, due_ms = int(answers["lease_ms"][number]), int(timers["due_ms"][number])
                self._reaper.watch(job_id, scheduled_ms, fence, lease_ms, due_ms)
        if self._unknown:
            for key in _run_keys(timers):
                self._unknown.pop(key, None)
        return won

    def _runs_here(self, job_id: bytes, scheduled_ms: int, fence: int) -> bool:
        """Whether that attempt is one of this process, whose lease is kept already."""
        return any(
            int(pool.inflight.rows["fence"][slot]) == fence
            for pool in self._pools
            for slot in pool.inflight.find(job_id, scheduled_ms)
        )

    def _note_unknown(self, batch: ClaimBatch | QueuedBatch, fences: Ints) -> None:
        for key, fence in zip(_run_keys(batch.timers), fences.tolist(), strict=False):
            self._unknown.setdefault(key, {})[fence] = batch.queued

    def _tell(self, timers: Rows, answers: Rows, sent: Sent) -> None:
        verdicts = answers["verdict"]
        counts = np.bincount(verdicts, minlength=len(ClaimVerdict)).astype(np.int64)
        first = timers["flags"][(verdicts == ClaimVerdict.WON) & (timers["gen"] > 0)] & FLAG_LANE_MASK
        triggers = np.bincount(first, minlength=LANE_COUNT).astype(np.int64)
        took_ms = self._clock.monotonic_ms() - sent.mono_ms
        self._events.emit(ClaimsAnswered(verdicts=counts, took_ms=took_ms, triggers=triggers))

    def _tell_queued(self, batch: QueuedBatch, answers: Rows, won: Bools, sent: Sent) -> None:
        numbers = np.flatnonzero(won)
        if not len(numbers):
            return
        timers = batch.timers[numbers]
        works = [work for number in numbers.tolist() if (work := batch.works[number]) is not None]
        lateness_ms = self._clock.now_ms() - timers["due_ms"]
        lane = (timers["flags"] & FLAG_LANE_MASK).astype(np.int64)
        self._events.emit(
            RunsQueued(
                lateness_ms=lateness_ms,
                lane=lane,
                works=works,
                timers=timers,
                fences=answers["fence"][numbers],
                claim_ms=self._clock.monotonic_ms() - sent.mono_ms,
            )
        )


def _run_keys(timers: Rows) -> list[tuple[bytes, int]]:
    return list(zip(timers["job_id"].tolist(), timers["scheduled_ms"].tolist(), strict=True))
