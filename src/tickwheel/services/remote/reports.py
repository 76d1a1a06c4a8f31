"""What workers report over HTTP: signs of life of attempts, and their ends.

A worker says what happened; what follows from it (a retry, when; a dead letter) is decided here, by the policy of
the job, and committed under the token of the attempt. Each run of a request is answered by itself: one whose token
is not its run's any more is refused with the reason, and stops none of the others.

A report that is repeated because its answer was lost is accepted again: the run shows the very end that was
reported, under the very token. A retry has another instant each time it is decided, so the repetition of a failure
is known by what it left behind (`_is_done`) instead of by the instant.

For a worker of one tenant the runs of others are unknown runs, and are left alone before anything else is asked.
Tokens keep nobody away here: they are proofs of order, not secrets.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from tickwheel.domain.columns import COMPLETION, RENEWAL, CompletionCause, Rows
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote, RetryPolicy, decide
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote, Run, Store
from tickwheel.services.attempt_notes import failure_note, result_note, write_decision
from tickwheel.services.plans import read_policy
from tickwheel.services.remote.ends import Ends
from tickwheel.services.remote.held import HeldRun, HeldRuns, RunKey
from tickwheel.services.remote.taking import Begun


class Refusal(StrEnum):
    """Why a report was not accepted."""

    CANCELLED = "cancelled"  # somebody cancelled the run
    LOST = "lost"  # the lease was over: another attempt has the run, or will have it
    ENDED = "ended"  # another end was reported under this token before
    UNKNOWN = "unknown"  # there is no such run
    UNWRITTEN = "unwritten"  # the store could not write it: report it again


class RunEnd(msgspec.Struct, frozen=True):
    """How an attempt ended, as its worker says."""

    key: RunKey
    fence: int
    outcome: Outcome = OK


class RunBeat(msgspec.Struct, frozen=True):
    """An attempt that goes on."""

    key: RunKey
    fence: int
    progress: ProgressNote | None = None


class Beaten(msgspec.Struct, frozen=True):
    """The answer to a beat: the end of the new lease, or why there is none."""

    lease_ms: int = 0
    refusal: Refusal | None = None


class Reports:
    """Beats and ends of all workers that call this node."""

    def __init__(
        self,
        *,
        store: Store,
        ends: Ends,
        held: HeldRuns,
        clock: Clock,
        randomness: Randomness,
        lease_length_ms: int,
        on_lengths: Callable[[str, Sequence[int]], None],
    ) -> None:
        self._on_lengths = on_lengths
        self._store, self._ends, self._held = store, ends, held
        self._clock, self._randomness, self._lease_length_ms = clock, randomness, lease_length_ms

    async def beat(self, worker: str, beats: Sequence[RunBeat], tenant_id: str | None = None) -> Sequence[Beaten]:
        """Keep the leases; in the order given. Raises `StoreUnavailable`."""
        hidden = await self._hidden(worker, beats, tenant_id)
        if not hidden:
            return await self._beat(worker, beats)
        shown = [one for one in beats if one.key not in hidden]
        answers = iter(await self._beat(worker, shown) if shown else ())
        return [Beaten(refusal=Refusal.UNKNOWN) if one.key in hidden else next(answers) for one in beats]

    async def _hidden(
        self, worker: str, reports: Sequence[RunBeat | RunEnd], tenant_id: str | None
    ) -> Collection[RunKey]:
        """The runs that are not the tenant's, or that there are not."""
        if tenant_id is None:
            return ()
        keys = list({one.key for one in reports if self._held.get(worker, one.key, one.fence) is None})
        return {key for key, run in (await self._find(keys)).items() if run is None or run.tenant_id != tenant_id}

    async def _beat(self, worker: str, beats: Sequence[RunBeat]) -> Sequence[Beaten]:
        latest = {(one.key, one.fence): one for one in beats}
        if len(latest) < len(beats):  # a store renews each once
            answers = dict(zip(latest, await self._beat(worker, list(latest.values())), strict=True))
            return [answers[one.key, one.fence] for one in beats]
        now_ms = self._clock.now_ms()
        lease_ms = now_ms + self._lease_length_ms
        rows = np.zeros(len(beats), dtype=RENEWAL)
        known: list[HeldRun | None] = []
        for number, one in enumerate(beats):
            row, held = rows[number], self._held.get(worker, one.key, one.fence)
            row["job_id"], row["scheduled_ms"], row["fence"] = np.void(one.key[0]), one.key[1], one.fence
            row["started_ms"] = held.started_ms if held is not None else 0
            known.append(held)
        rows["lease_ms"], rows["beat_ms"], rows["mark_running"] = lease_ms, now_ms, 1
        notes = {number: one.progress for number, one in enumerate(beats) if one.progress is not None}
        kept = (await self._store.renew(rows, notes)).tolist()
        for held, is_kept in zip(known, kept, strict=True):
            if held is not None and is_kept:
                held.lease_ms = lease_ms
        lost = [one for one, is_kept in zip(beats, kept, strict=True) if not is_kept]
        self._held.drop(worker, [one.key for one in lost])
        runs = await self._find([one.key for one in lost])
        return [
            Beaten(lease_ms) if is_kept else Beaten(refusal=why_refused(runs[one.key], one.fence))
            for one, is_kept in zip(beats, kept, strict=True)
        ]

    async def end(
        self, worker: str, ends: Sequence[RunEnd], tenant_id: str | None = None
    ) -> Sequence[Refusal | None]:
        """Commit ends; per end why it was refused, None = accepted. Raises `StoreUnavailable`."""
        hidden = await self._hidden(worker, ends, tenant_id)
        if not hidden:
            return await self._end_shown(worker, ends)
        shown = [one for one in ends if one.key not in hidden]
        answers = iter(await self._end_shown(worker, shown) if shown else ())
        return [Refusal.UNKNOWN if one.key in hidden else next(answers) for one in ends]

    async def _end_shown(self, worker: str, ends: Sequence[RunEnd]) -> Sequence[Refusal | None]:
        keys = [one.key for one in ends]
        self._held.begin_end(keys)
        try:
            return await self._end(worker, ends)
        finally:
            self._held.finish_end(keys)

    async def _end(self, worker: str, ends: Sequence[RunEnd]) -> Sequence[Refusal | None]:
        known = [self._held.get(worker, one.key, one.fence) for one in ends]
        refusals: list[Refusal | None] = [None] * len(ends)
        repeated = _repeated(ends)
        unknown = [n for n, held in enumerate(known) if held is None]
        found = await self._find([ends[n].key for n in unknown])
        for number in unknown:
            one = ends[number]
            run = found[one.key]
            if run is not None and run.fence == one.fence and run.state in IN_FLIGHT:
                known[number] = HeldRun.of_run(run)
            elif run is None or not _is_done(run, one):
                refusals[number] = why_refused(run, one.fence)
        await self._read_policies(ends, known)
        chosen = [(n, held) for n, held in enumerate(known) if held is not None and n not in repeated]
        applied = await self._ends.commit(*self._completions([(ends[n], held) for n, held in chosen]))
        now_ms = self._clock.now_ms()
        self._on_lengths(worker, [now_ms - held.started_ms for _, held in chosen if held.started_ms])
        self._held.drop(worker, [ends[n].key for n, _ in chosen])
        stale = [n for (n, _), done in zip(chosen, applied.tolist(), strict=True) if not done]
        await self._explain(ends, [*stale, *repeated], refusals)
        return refusals

    async def _explain(self, ends: Sequence[RunEnd], stale: Sequence[int], refusals: list[Refusal | None]) -> None:
        found = await self._find([ends[n].key for n in stale])
        for number in stale:
            one = ends[number]
            run = found[one.key]
            if run is None or not _is_done(run, one):
                refusals[number] = why_refused(run, one.fence)

    def hand_back(self, undelivered: Sequence[tuple[RunKey, HeldRun]], why: str) -> None:
        """These began for a worker that never got them: they use no attempt up (F4)."""
        outcome = Outcome(outcome_class=OutcomeClass.UNSTARTED, error=why)
        ends = [(RunEnd(key, held.fence, outcome), held) for key, held in undelivered]
        self._ends.add(*self._completions(ends))

    def fail_unsent(self, worker: str, failed: Sequence[tuple[Begun, str]]) -> None:
        """These began, and what is needed to execute them is missing here: an attempt each, to be tried again."""
        self._fail_here(worker, failed, OutcomeClass.RETRYABLE)

    def fail_refused(self, worker: str, failed: Sequence[tuple[Begun, str]]) -> None:
        """These began, and their targets may not be called: trying again can't help."""
        self._fail_here(worker, failed, OutcomeClass.PERMANENT)

    def _fail_here(self, worker: str, failed: Sequence[tuple[Begun, str]], outcome_class: OutcomeClass) -> None:
        now_ms = self._clock.now_ms()
        ends = [
            (
                RunEnd(
                    (run.job_id, run.scheduled_ms),
                    run.fence,
                    Outcome(outcome_class=outcome_class, error=why, unsent=True),
                ),
                HeldRun.of_begun(run, now_ms),
            )
            for run, why in failed
        ]
        self._held.drop(worker, [end.key for end, _ in ends])
        self._ends.add(*self._completions(ends))

    def fail_broken(self, broken: Sequence[tuple[bytes, int, int]]) -> None:
        """These began (job id, scheduled ms, token), and nobody can read what they are to do."""
        outcome = Outcome(outcome_class=OutcomeClass.PERMANENT, error="the job's definition can't be read")
        ends = [
            (RunEnd((job_id, scheduled_ms), fence, outcome), HeldRun(fence, 1, 0, 0, 0, 0))
            for job_id, scheduled_ms, fence in broken
        ]
        self._ends.add(*self._completions(ends))

    async def _find(self, keys: Sequence[RunKey]) -> Mapping[RunKey, Run | None]:
        if not keys:
            return {}
        return dict(zip(keys, await self._store.find_runs(keys), strict=True))

    async def _read_policies(self, ends: Sequence[RunEnd], known: Sequence[HeldRun | None]) -> None:
        """Of the attempts that this node did not hand out itself."""
        missing = [
            (held, one)
            for one, held in zip(ends, known, strict=True)
            if held is not None and held.policy is None and one.outcome is not OK
        ]
        if not missing:
            return
        works = await self._store.load_work([one.key[0] for _, one in missing])
        for (held, _), work in zip(missing, works, strict=True):
            held.policy = RetryPolicy() if work is None else read_policy(work.spec)

    def _completions(
        self, ends: Sequence[tuple[RunEnd, HeldRun]]
    ) -> tuple[Rows, dict[int, AttemptNote], list[Work | None]]:
        now_ms = self._clock.now_ms()
        rows, notes = np.zeros(len(ends), dtype=COMPLETION), dict[int, AttemptNote]()
        rows["due_ms"], rows["retry_ms"], rows["finished_ms"] = -1, -1, now_ms  # which timer: the row knows
        rows["cause"], rows["state"] = CompletionCause.WORKER, RunState.SUCCEEDED
        for number, (one, held) in enumerate(ends):
            row = rows[number]
            row["job_id"], row["scheduled_ms"], row["fence"] = np.void(one.key[0]), one.key[1], one.fence
            row["attempt"], row["flags"], row["started_ms"] = held.attempt, held.flags, held.started_ms
            row["outcome"], row["http_status"] = one.outcome.outcome_class, one.outcome.http_status
            note = self._decide(row, one.outcome, held, now_ms)
            if note is not None:
                notes[number] = note
        return rows, notes, [held.work for _, held in ends]

    def _decide(self, row: np.void, outcome: Outcome, held: HeldRun, now_ms: int) -> AttemptNote | None:
        if outcome.outcome_class is OutcomeClass.SUCCESS:
            return result_note(outcome)
        policy = held.policy or RetryPolicy()
        decision = decide(outcome, held.attempt, held.lost_count, policy, self._randomness.fraction(), now_ms)
        write_decision(row, decision)
        return failure_note(outcome, decision)


def why_refused(run: Run | None, fence: int) -> Refusal:
    """What the ledger says about an attempt that it does not let write."""
    if run is None:
        return Refusal.UNKNOWN
    if run.state is RunState.CANCELLED:
        return Refusal.CANCELLED
    if run.fence != fence:
        return Refusal.LOST
    if run.state in IN_FLIGHT:
        return Refusal.UNWRITTEN
    if run.state in (RunState.SCHEDULED, RunState.FAILED) and run.lost_count:
        return Refusal.LOST
    return Refusal.ENDED


def _is_done(run: Run, one: RunEnd) -> bool:
    """Whether the run shows what this end asks for, under its token: it was reported before."""
    if run.fence != one.fence:
        return False
    match one.outcome.outcome_class:
        case OutcomeClass.SUCCESS:
            return run.state is RunState.SUCCEEDED
        case OutcomeClass.CANCELLED:
            return run.state is RunState.CANCELLED
        case OutcomeClass.UNSTARTED:  # whoever handed it back, that is what was asked for
            return run.state is RunState.SCHEDULED
        case _:
            # A lost worker leaves the same states behind, but it is counted.
            return run.state in (RunState.SCHEDULED, RunState.FAILED) and not run.lost_count


def _repeated(ends: Sequence[RunEnd]) -> list[int]:
    """The numbers of those whose attempt is there before: the first end of an attempt counts."""
    seen: set[tuple[RunKey, int]] = set()
    repeated = []
    for number, one in enumerate(ends):
        if (one.key, one.fence) in seen:
            repeated.append(number)
        seen.add((one.key, one.fence))
    return repeated
