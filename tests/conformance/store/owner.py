"""A process that owns the shards and its workers, reduced to what the store sees of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel.domain.columns import (
    CLAIM,
    COMPLETION,
    RENEWAL,
    ClaimAction,
    ClaimVerdict,
    CompletionCause,
    OverlapCode,
    Rows,
)
from tickwheel.domain.ids import shard_of
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState, SkipReason, fencing_token
from tickwheel.ports.store import AttemptNote, FirstTimer, NewJob
from tickwheel.services.plans import note_unchanged

from .arena import Arena, rows_of, timer_values

LEASE_MS = 30_000
REAPED: dict[str, Any] = {"cause": CompletionCause.REAPER, "outcome": OutcomeClass.LOST}


@dataclass(frozen=True)
class Held:
    """A claim and its answer; a won one is the right to finish the attempt."""

    job_id: bytes
    timer: FirstTimer
    asked_fence: int
    verdict: ClaimVerdict
    attempt: int
    lost_count: int
    version: int
    fence: int
    lease_ms: int

    @property
    def won(self) -> bool:
        return self.verdict is ClaimVerdict.WON


@dataclass(frozen=True)
class Ended:
    """The answer to one completion."""

    applied: bool
    follow_up: FirstTimer | None


class Owner:
    """Draws tokens as an owner does: rising per shard under its own epoch."""

    def __init__(self, arena: Arena, worker: str = "worker-1") -> None:
        self._arena, self.worker = arena, worker
        self.reads_definitions = arena.reads_definitions
        self.epochs: list[int] = []
        self._sequence = 0

    async def acquire(self) -> "Owner":
        self.epochs = (await self._arena.store.acquire(self.worker)).tolist()
        return self

    def token(self, job_id: bytes) -> int:
        self._sequence += 1
        return fencing_token(self.epochs[shard_of(job_id)], self._sequence)

    def claim_row(self, new: NewJob, timer: FirstTimer | None = None, **fields: Any) -> dict[str, Any]:
        """The fields of a CLAIM row: a first claim of the job's first timer, allowed four attempts."""
        timer = timer or new.timer
        assert timer is not None
        return {
            "due_ms": timer.due_ms,
            "job_id": new.job.job_id,
            "scheduled_ms": timer.scheduled_ms,
            "gen": timer.gen,
            "flags": new.job.timer_flags,
            "action": ClaimAction.RUN,
            "reason": SkipReason.NONE,
            "overlap": OverlapCode.ALLOW,
            "max_attempts": 4,
            "fence": 0,
            "next_ms": -1,
            "changes": 0,
            "armed_ms": 0,
            "limited": int(bool(new.job.spec.concurrency or fields.get("tenant_limit"))),
            "tenant_limit": 0,
        } | fields

    async def claim_rows(self, *claims: dict[str, Any], queued: bool = False) -> list[Held]:
        """Claim as one batch; each row gets a new token unless it names one."""
        for claim in claims:
            claim["fence"] = claim["fence"] or self.token(claim["job_id"])
        now_ms, rows = self._arena.now_ms, rows_of(CLAIM, *claims)
        if self.reads_definitions:
            note_unchanged(rows, await self._arena.store.load_work(rows["job_id"].tolist()))
        answers = await self._arena.store.claim(rows, now_ms, now_ms + LEASE_MS, queued=queued)
        return [
            Held(
                claim["job_id"],
                FirstTimer(claim["due_ms"], claim["scheduled_ms"], claim["gen"]),
                claim["fence"],
                ClaimVerdict(answer[0]),
                *answer[1:],
            )
            for claim, answer in zip(claims, answers.tolist(), strict=True)
        ]

    async def claim(self, new: NewJob, timer: FirstTimer | None = None, **fields: Any) -> Held:
        """Claim one timer, the job's first unless told otherwise."""
        [held] = await self.claim_rows(self.claim_row(new, timer, **fields))
        return held

    async def win(self, new: NewJob, timer: FirstTimer | None = None, **fields: Any) -> Held:
        """A claim that has to be won."""
        held = await self.claim(new, timer, **fields)
        assert held.won, held
        return held

    async def queue(self, new: NewJob, timer: FirstTimer | None = None, **fields: Any) -> Held:
        """A claim for a worker elsewhere, which has to be won."""
        [held] = await self.claim_rows(self.claim_row(new, timer, **fields), queued=True)
        assert held.won, held
        return held

    def completion_row(self, held: Held, state: RunState, **fields: Any) -> dict[str, Any]:
        """The fields of a COMPLETION row, as the attempt's own worker sends it."""
        now_ms = self._arena.now_ms
        failed = state is not RunState.SUCCEEDED
        return {
            "due_ms": held.timer.due_ms,
            "job_id": held.job_id,
            "scheduled_ms": held.timer.scheduled_ms,
            "gen": held.timer.gen,
            "flags": 0,
            "fence": held.fence,
            "state": state,
            "cause": CompletionCause.WORKER,
            "outcome": OutcomeClass.RETRYABLE if failed else OutcomeClass.SUCCESS,
            "http_status": 500 if failed else 200,
            "attempt": held.attempt,
            "lost_count": 0,
            "started_ms": now_ms,
            "finished_ms": now_ms,
            "retry_ms": now_ms if state is RunState.SCHEDULED else -1,
        } | fields

    async def complete_rows(
        self, *ends: dict[str, Any], notes: Mapping[int, AttemptNote] | None = None
    ) -> tuple[list[bool], Sequence[tuple[bytes, FirstTimer]]]:
        """Complete as one batch."""
        done = await self._arena.store.complete(rows_of(COMPLETION, *ends), notes or {})
        return done.applied.tolist(), timer_values(done.follow_ups)

    async def complete(self, held: Held, state: RunState, note: AttemptNote | None = None, **fields: Any) -> Ended:
        """Complete one attempt."""
        row = self.completion_row(held, state, **fields)
        [applied], follow_ups = await self.complete_rows(row, notes={} if note is None else {0: note})
        assert len(follow_ups) <= 1
        assert all(job_id == held.job_id for job_id, _ in follow_ups)
        return Ended(applied, follow_ups[0][1] if follow_ups else None)

    async def retry_later(self, held: Held, delay_ms: int = 0, **fields: Any) -> FirstTimer:
        """A failed attempt with another one to come; gives the follow-up timer."""
        fields = {"retry_ms": self._arena.now_ms + delay_ms} | fields
        ended = await self.complete(held, RunState.SCHEDULED, **fields)
        assert ended.applied
        assert ended.follow_up is not None
        return ended.follow_up

    async def renew(self, held: Held, **fields: Any) -> bool:
        """One heartbeat."""
        [held_on] = (await self._arena.store.renew(self.renewal_batch(held, **fields))).tolist()
        return bool(held_on)

    def renewal_batch(self, held: Held, **fields: Any) -> Rows:
        """One RENEWAL row."""
        now_ms = self._arena.now_ms
        row = {
            "job_id": held.job_id,
            "scheduled_ms": held.timer.scheduled_ms,
            "fence": held.fence,
            "started_ms": now_ms,
            "lease_ms": now_ms + LEASE_MS,
            "beat_ms": now_ms,
            "mark_running": 0,
        }
        return rows_of(RENEWAL, row | fields)
