"""Making jobs: ids, keys, the insert and the arming, for one request or ten thousand.

A key is decided by the store in the transaction of the insert, so of two requests at once one creates and the
other is answered with the created job, and a request whose commit failed leaves no trace of its key.

Requests that are stored by one commit wake up one after the other in one turn of the event loop. Their timers are
armed together after that turn: arming a thousand rows costs little more than arming one.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from tickwheel.domain.errors import IdempotencyConflict, OutcomeUnknown, TickwheelError
from tickwheel.domain.ids import RANDOM_BYTES, SHARD_COUNT
from tickwheel.domain.job import Job, ScheduleType, Spec
from tickwheel.domain.requests.job_request import JobRequest, request_hash
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.owner import Owner
from tickwheel.ports.registry import Act
from tickwheel.ports.store import FirstTimer, Inserted, InsertStatus, NewJob, Store
from tickwheel.services.arming import first_timer_rows
from tickwheel.services.new_jobs import Placed, new_job, new_jobs, place
from tickwheel.services.quotas import Quotas
from tickwheel.services.sealing import Sealing


class Created(msgspec.Struct, frozen=True, gc=False):
    """A job that was made, or (`replayed`) had been made by the same request before."""

    job_id: bytes
    tenant_id: str
    name: str
    schedule_type: ScheduleType
    next_ms: int | None
    created_ms: int
    replayed: bool
    spec: Spec  # with the effective policies
    warnings: tuple[str, ...] = ()


class IdempotencyKeyMismatch(TickwheelError):
    """The header and the field name two different idempotency keys."""

    code = "idempotency_key_mismatch"


_EVERY_SHARD: Final = tuple(range(SHARD_COUNT))


def every_shard() -> Sequence[int]:
    """What a process holds that is alone on its store."""
    return _EVERY_SHARD


ITEMS_A_TURN: Final = 500
"""After so many items of a batch, whatever is due goes first: parsing ten thousand takes a tenth of a second."""


DRAWN_BYTES: Final = 256 * RANDOM_BYTES


class InsertJobs(Protocol):
    """As `ports.store.JobStore.insert_jobs`."""

    async def __call__(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]: ...


class Ingest:
    """Inserts jobs in batches, each batch one durable commit."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        clock: Clock,
        randomness: Randomness,
        held_shards: Callable[[], Sequence[int]],
        insert_jobs: InsertJobs | None = None,
    ) -> None:
        self._store, self._owner, self._clock, self._randomness = store, owner, clock, randomness
        self._insert_jobs = insert_jobs
        self._held_shards = held_shards
        self._turn = int.from_bytes(randomness.random_bytes(2), "big")
        self._drawn, self._drawn_used = b"", 0
        self._inserting = 0
        # Told how many jobs are being stored.
        self.counted: Callable[[int], AbstractContextManager[None]] = lambda job_count: nullcontext()
        self._to_arm: list[tuple[Job, FirstTimer]] = []
        self.quotas: Quotas | None = None
        self.sealing = Sealing()

    def next_shard(self) -> int:
        """A shard that this process holds, so that near jobs are armed with no hop; any if it holds none.

        They are taken in turn: a batch spreads evenly.
        """
        return self._next_shards(1)[0]

    def _next_shards(self, count: int) -> list[int]:
        shards = self._held_shards() or every_shard()
        first = self._turn + 1
        self._turn += count
        return [shards[turn % len(shards)] for turn in range(first, first + count)]

    def new_job(self, request: JobRequest, now_ms: int, *, named: bool = False) -> NewJob:
        """The job to insert for one request. Raises `InvalidRequest`."""
        request, key_hash = self._settled(request)
        return new_job(request, now_ms, self.next_shard(), self._random_bytes(RANDOM_BYTES), key_hash, named)

    def _random_bytes(self, count: int) -> bytes:
        """Fresh ones; drawn for many jobs at once, because asking the system gives up the interpreter's lock."""
        if len(self._drawn) - self._drawn_used < count:
            self._drawn, self._drawn_used = self._randomness.random_bytes(max(count, DRAWN_BYTES)), 0
        start = self._drawn_used
        self._drawn_used += count
        return self._drawn[start : self._drawn_used]

    async def insert(
        self, requests: Sequence[JobRequest | TickwheelError], act: Act | None = None
    ) -> list[Created | TickwheelError]:
        """Insert all that are no errors; one bad item doesn't fail the others. Answers in the order given."""
        now_ms, trace = self._clock.now_ms(), "" if act is None else act.trace
        answers: list[Created | TickwheelError] = []
        placed: list[tuple[int, JobRequest, NewJob]] = []
        for start in range(0, len(requests), ITEMS_A_TURN):
            if start:
                await self._clock.sleep_ms(0)
            placed += self._new_jobs(requests[start : start + ITEMS_A_TURN], now_ms, answers, trace)
        if placed and self.quotas is not None and self.quotas.bounds_jobs:
            await self._commit_within(self.quotas, placed, answers, act)
        elif placed:
            with self.counted(len(placed)):
                await self._commit(placed, answers, act)
        return answers

    async def _commit_within(
        self,
        quotas: Quotas,
        placed: Sequence[tuple[int, JobRequest, NewJob]],
        answers: list[Created | TickwheelError],
        act: Act | None,
    ) -> None:
        """Store those for which their tenants' limits have room."""
        admission = await quotas.admit([new for _, _, new in placed])
        wanted = [one for one, error in zip(placed, admission.errors, strict=True) if error is None]
        made: Sequence[bool] = [False] * len(placed)
        try:
            for (number, _, _), error in zip(placed, admission.errors, strict=True):
                if error is not None:
                    answers[number] = error
            if wanted:
                with self.counted(len(wanted)):
                    await self._commit(wanted, answers, act)
            made = [_is_made(answers[number]) for number, _, _ in placed]
        except OutcomeUnknown:
            made = [True] * len(placed)  # the next count of the store tells
            raise
        finally:
            quotas.settle(admission, made)

    def _new_jobs(
        self,
        requests: Sequence[JobRequest | TickwheelError],
        now_ms: int,
        answers: list[Created | TickwheelError],
        trace: str,
    ) -> list[tuple[int, JobRequest, NewJob]]:
        """The jobs to insert, with the places of their answers; `answers` gets an item for each request."""
        numbers: list[int] = []
        wanted: list[tuple[JobRequest, Placed, bytes]] = []
        for number, request in enumerate(requests, len(answers)):
            if isinstance(request, TickwheelError):
                answers.append(request)
                continue
            try:
                settled, key_hash = self._settled(request)
                if trace:
                    settled = with_trace(settled, trace)
                wanted.append((settled, place(settled, now_ms), key_hash))
            except TickwheelError as error:
                answers.append(error)
            else:
                numbers.append(number)
                answers.append(_UNANSWERED)
        shards = self._next_shards(len(wanted))
        new = new_jobs(wanted, now_ms, shards, self._random_bytes(RANDOM_BYTES * len(wanted)))
        return [(number, one[0], job) for number, one, job in zip(numbers, wanted, new, strict=True)]

    def _settled(self, request: JobRequest) -> tuple[JobRequest, bytes]:
        """The request as it is stored, and what is compared under its key. Raises `InvalidRequest`."""
        settled = self.sealing.settle(request)
        if request.idempotency_key is None:
            return settled, b""
        return settled, request_hash(self.sealing.in_the_clear(request))

    async def _commit(
        self,
        wanted: Sequence[tuple[int, JobRequest, NewJob]],
        answers: list[Created | TickwheelError],
        act: Act | None,
    ) -> None:
        self._inserting += 1
        try:
            insert_jobs = self._insert_jobs or self._store.insert_jobs
            inserted = await insert_jobs([new for _, _, new in wanted], act)
        finally:
            self._inserting -= 1
        nothing_waits = not self._to_arm
        for (number, request, new), done in zip(wanted, inserted, strict=True):
            answers[number] = _answer(request, new, done)
            if done.status is InsertStatus.CREATED and new.timer is not None:
                self._to_arm.append((new.job, new.timer))
        if not self._inserting:
            self._arm()
        elif nothing_waits and self._to_arm:
            asyncio.get_running_loop().call_soon(self._arm)

    def _arm(self) -> None:
        """Everything that was stored and not armed yet."""
        to_arm, self._to_arm = self._to_arm, []
        if to_arm:
            self._owner.arm(first_timer_rows(to_arm))


_UNANSWERED: Final = TickwheelError("the store gave no answer")


def _is_made(answer: Created | TickwheelError) -> bool:
    return isinstance(answer, Created) and not answer.replayed


def with_key(request: JobRequest, header_key: str | None) -> JobRequest:
    """`request` under the key of the header, if there is one. Raises `IdempotencyKeyMismatch`."""
    if header_key is None or header_key == request.idempotency_key:
        return request
    if request.idempotency_key is not None:
        raise IdempotencyKeyMismatch("the Idempotency-Key header and idempotency_key differ; send one of them")
    return replace(request, idempotency_key=header_key)


def with_trace(request: JobRequest, trace: str) -> JobRequest:
    """`request` with the trace that it is part of, if there is one; for after its key was hashed."""
    return replace(request, spec=replace(request.spec, trace=trace)) if trace else request


def _answer(request: JobRequest, new: NewJob, done: Inserted) -> Created | TickwheelError:
    if done.status is InsertStatus.KEY_CONFLICT:
        return IdempotencyConflict(
            f"the idempotency key {request.idempotency_key!r} was used for another request; nothing was written"
        )
    if done.status is InsertStatus.CREATED:
        next_ms = None if new.timer is None else new.timer.due_ms
        job_id, created_ms = new.job.job_id, new.job.created_ms
    else:
        job_id, next_ms, created_ms = done.job_id, done.next_ms, done.created_ms
    return Created(
        job_id,
        request.tenant_id,
        request.name,
        request.schedule_type,
        next_ms,
        created_ms,
        done.status is InsertStatus.REPLAYED,
        new.job.spec,
        request.warnings,
    )
