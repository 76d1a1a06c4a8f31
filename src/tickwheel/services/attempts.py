"""Starts attempts on the executors, takes their reports and decides what follows.

One `Pool` per kind of executor: its slots (with the lanes' reservations), its table of attempts in flight, the
executor. Claims hold slots and hand over what they won with `start`; a report frees the slots and queues the
completions. The common end, a clean success, is handled by columns; only other ends are looked at one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import COMPLETION, FLAG_LANE_MASK, CompletionCause, Ints, Rows, empty
from tickwheel.domain.job import Spec
from tickwheel.domain.lanes import LANE_COUNT, LaneSlots
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote, RetryPolicy, decide
from tickwheel.domain.run import RunState
from tickwheel.domain.run_trace import run_trace
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import AttemptsStarted, EventSink
from tickwheel.ports.executor import Executor, Progress, Report, Work
from tickwheel.ports.store import AttemptNote, WorkDefinition
from tickwheel.services.attempt_notes import failure_note, result_note, write_decision
from tickwheel.services.completion import Completions
from tickwheel.services.gates.evidence import Ended
from tickwheel.services.inflight import ATTEMPT, InFlight

Slots = npt.NDArray[np.intp]
COPIED: Final = (
    "due_ms",
    "job_id",
    "scheduled_ms",
    "gen",
    "flags",
    "fence",
    "attempt",
    "lost_count",
    "started_ms",
)


def _ignore(flags: npt.NDArray[np.integer[Any]], took_ms: Ints) -> None:
    """Nobody wants to know."""


class Sent(msgspec.Struct, frozen=True):
    """When a claim was sent (monotonic: the attempt's own clock starts there) and until when it holds."""

    lease_ms: int
    mono_ms: int


class Won(msgspec.Struct, frozen=True):
    """Claims of one pool that were won: TIMER and CLAIMED rows, definitions and specs, all in one order."""

    timers: Rows
    claimed: Rows
    works: Sequence[WorkDefinition]
    specs: Sequence[Spec]
    sent: Sent


class Pool:
    """The attempts of one executor kind."""

    def __init__(
        self,
        *,
        capacity: int,
        build_executor: Callable[[Report, Progress], Executor],
        completions: Completions,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        on_begun: Callable[[], None],
        on_free: Callable[[], None],
        on_ended: Callable[[Sequence[Work | None], Ended | None], None],
    ) -> None:
        self.slots = LaneSlots(capacity)
        self.inflight = InFlight(capacity)
        self.said: dict[int, ProgressNote] = {}
        """By slot, what attempts have said of themselves and the store has not been told."""
        self.executor = build_executor(self._report, self._hear)
        self._policies: list[RetryPolicy | None] = [None] * capacity
        self._doubtful: list[tuple[Slots, Ints]] = []
        self._completions, self._clock, self._randomness = completions, clock, randomness
        self._events, self._on_begun = events, on_begun
        self._on_free, self._on_ended = on_free, on_ended
        self.on_took: Callable[[npt.NDArray[np.integer[Any]], Ints], None] = _ignore
        """Told the flags of runs that have ended, and for how long each has held its slot."""

    def start(self, won: Won) -> None:
        """Begin these attempts now; their slots were reserved before."""
        now_ms, now_mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        table = self.inflight
        slots = table.take(len(won.timers))
        self._on_begun()
        rows = np.zeros(len(slots), dtype=table.rows.dtype)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            rows[name] = won.timers[name]
        for name in ("fence", "attempt", "lost_count"):
            rows[name] = won.claimed[name]
        rows["started_ms"], rows["begun_mono_ms"] = now_ms, now_mono_ms
        rows["lease_ms"], rows["renewed_mono_ms"] = won.sent.lease_ms, won.sent.mono_ms
        table.rows[slots] = rows
        works = self._works(slots, rows, won)
        lateness_ms = now_ms - won.timers["due_ms"]
        lanes = (won.timers["flags"] & FLAG_LANE_MASK).astype(np.int64)
        try:
            self.executor.start(works)
        except BaseException:
            # Which of them began is not known. They are renewed no more, and their slots come back when their
            # lease is over: until then one that did begin may still report.
            table.rows["stopping"][slots] = 1
            self._doubtful.append((slots, table.turns[slots].copy()))
            raise
        claim_ms = now_mono_ms - won.sent.mono_ms
        self._events.emit(AttemptsStarted(lateness_ms=lateness_ms, lane=lanes, works=works, claim_ms=claim_ms))

    def take_back(self) -> Rows:
        """Free slots of attempts that the executor failed to take, once their lease is over; gives their rows."""
        if not self._doubtful:
            return empty(ATTEMPT)
        table, now_ms = self.inflight, self._clock.now_ms()
        slots, turns = (np.concatenate(parts) for parts in zip(*self._doubtful, strict=True))
        there = table.active[slots] & (table.turns[slots] == turns)  # else it began, and has ended
        over = there & (table.rows["lease_ms"][slots] <= now_ms)
        waiting = there & ~over
        self._doubtful = [(slots[waiting], turns[waiting])] if waiting.any() else []
        rows: Rows = table.rows[slots[over]]
        if len(rows):
            works = [self.inflight.works[slot] for slot in slots[over].tolist()]
            self._free(slots[over].tolist(), rows)
            self._on_ended(works, None)
            self._on_free()
        return rows

    def _hear(self, slot: int, note: ProgressNote) -> None:
        if self.inflight.active[slot]:
            self.said[slot] = note

    def abort(self, slots: Sequence[int]) -> None:
        """Ask the executor to stop these attempts; it reports them when they have ended."""
        self.inflight.rows["stopping"][np.asarray(slots, dtype=np.intp)] = 1
        self.executor.cancel(slots)

    def _works(self, slots: np.ndarray, rows: Rows, won: Won) -> list[Work]:
        works = []
        columns = zip(
            slots.tolist(),
            rows["job_id"].tolist(),
            rows["scheduled_ms"].tolist(),
            rows["fence"].tolist(),
            rows["attempt"].tolist(),
            rows["flags"].tolist(),
            won.works,
            won.specs,
            strict=True,
        )
        for slot, job_id, scheduled_ms, fence, attempt, flags, definition, spec in columns:
            work = Work(
                slot,
                job_id,
                scheduled_ms,
                fence,
                attempt,
                spec.retry.max_retries + 1,
                flags & FLAG_LANE_MASK,
                definition.tenant_id,
                spec.target,
                definition.payload.encode(),
                definition.idempotency_key,
                definition.name,
            )
            if spec.trace:
                work.trace = run_trace(spec.trace, job_id, scheduled_ms, fence, recurring=bool(spec.cron))
            self.inflight.works[slot] = work
            self._policies[slot] = spec.retry
            works.append(work)
        return works

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        index = np.asarray(slots, dtype=np.intp)
        known = self.inflight.active[index]
        if not known.all():  # of a start that failed, long ago
            outcomes = [outcome for outcome, here in zip(outcomes, known.tolist(), strict=True) if here]
            index = index[known]
            slots = index.tolist()
        attempts = self.inflight.rows[index]
        rows = np.zeros(len(index), dtype=COMPLETION)
        for name in COPIED:
            rows[name] = attempts[name]
        rows["finished_ms"] = now_ms = self._clock.now_ms()
        rows["state"], rows["cause"], rows["retry_ms"] = RunState.SUCCEEDED, CompletionCause.WORKER, -1
        rows["lost_count"] = 0
        notes: dict[int, AttemptNote] = {}
        for number, outcome in enumerate(outcomes):
            if outcome is OK:
                continue
            if outcome.outcome_class is OutcomeClass.SUCCESS:
                rows["http_status"][number] = outcome.http_status
                note = result_note(outcome)
                if note is not None:
                    notes[number] = note
            else:
                self._decide_one(rows, number, slots[number], outcome, now_ms, notes)
        works = [self.inflight.works[slot] for slot in slots]
        self._free(slots, attempts)
        self.on_took(attempts["flags"], self._clock.monotonic_ms() - attempts["begun_mono_ms"])
        self._on_ended(works, Ended(rows, attempts["begun_mono_ms"], outcomes))
        # An attempt that was told to stop was cancelled in the store, or lost its lease and is the reaper's: that
        # it did stop is no news to commit (a CANCELLED written for a lost lease would lose the run).
        stopped = (attempts["stopping"] != 0) & (rows["outcome"] == OutcomeClass.CANCELLED)
        if stopped.any():
            kept = np.flatnonzero(~stopped).tolist()
            renumbered = {old: new for new, old in enumerate(kept)}
            notes = {renumbered[n]: note for n, note in notes.items() if n in renumbered}
            rows, works = rows[kept], [works[i] for i in kept]
        if len(rows):
            self._completions.add(rows, notes, works)
        self._on_free()

    def _decide_one(
        self,
        rows: Rows,
        number: int,
        slot: int,
        outcome: Outcome,
        now_ms: int,
        notes: dict[int, AttemptNote],
    ) -> None:
        policy = self._policies[slot]
        attempt = self.inflight.rows[slot]
        decision = decide(
            outcome,
            int(attempt["attempt"]),
            int(attempt["lost_count"]),
            policy if policy is not None else RetryPolicy(),
            self._randomness.fraction(),
            now_ms,
        )
        rows["outcome"][number] = outcome.outcome_class
        rows["http_status"][number] = outcome.http_status
        write_decision(rows[number], decision)
        notes[number] = failure_note(outcome, decision)

    def _free(self, slots: Sequence[int], attempts: Rows) -> None:
        by_lane = np.bincount(attempts["flags"] & FLAG_LANE_MASK, minlength=LANE_COUNT)
        for lane in np.flatnonzero(by_lane):
            self.slots.release(int(lane), int(by_lane[lane]))
        for slot in slots:
            self._policies[slot] = None
        if self.said:
            for slot in slots:
                self.said.pop(slot, None)
        self.inflight.release(slots)
