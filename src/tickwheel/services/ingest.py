"""Making jobs: ids, keys, the insert and the arming, for one request or ten thousand.

A key is decided by the store in the transaction of the insert, so of two requests at once one creates and the
other is answered with the created job, and a request whose commit failed leaves no trace of its key.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tickwheel.domain.errors import IdempotencyConflict, TickwheelError
from tickwheel.domain.ids import RANDOM_BYTES, SHARD_COUNT
from tickwheel.domain.job import ScheduleType, Spec
from tickwheel.domain.requests.definition import with_stored_headers
from tickwheel.domain.requests.job_request import JobRequest, request_hash
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.owner import Owner
from tickwheel.ports.store import Inserted, InsertStatus, NewJob, Store
from tickwheel.services.arming import first_timer_rows
from tickwheel.services.new_jobs import new_job


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


class Ingest:
    """Inserts jobs in batches, each batch one durable commit."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        clock: Clock,
        randomness: Randomness,
        held_shards: Callable[[], Sequence[int]],
    ) -> None:
        self._store, self._owner, self._clock, self._randomness = store, owner, clock, randomness
        self._held_shards = held_shards
        self._turn = int.from_bytes(randomness.random_bytes(2), "big")

    def next_shard(self) -> int:
        """A shard that this process holds, so that near jobs are armed with no hop; any if it holds none.

        They are taken in turn: a batch spreads evenly.
        """
        shards = self._held_shards() or every_shard()
        self._turn += 1
        return shards[self._turn % len(shards)]

    def new_job(self, request: JobRequest, now_ms: int, *, named: bool = False) -> NewJob:
        """The job to insert for one request. Raises `InvalidRequest`."""
        return self._new_job(request, now_ms, self._randomness.random_bytes(RANDOM_BYTES), named)

    def _new_job(self, request: JobRequest, now_ms: int, random48: bytes, named: bool) -> NewJob:
        if request.spec.target.headers:
            with_stored_headers(request.spec, None)
        key_hash = b"" if request.idempotency_key is None else request_hash(request)
        return new_job(request, now_ms, self.next_shard(), random48, key_hash, named)

    async def insert(self, requests: Sequence[JobRequest | TickwheelError]) -> list[Created | TickwheelError]:
        """Insert all that are no errors; one bad item doesn't fail the others. Answers in the order given."""
        now_ms = self._clock.now_ms()
        answers: list[Created | TickwheelError] = []
        wanted: list[tuple[int, JobRequest, NewJob]] = []
        randomness = self._randomness.random_bytes(RANDOM_BYTES * len(requests))
        for number, request in enumerate(requests):
            if isinstance(request, TickwheelError):
                answers.append(request)
                continue
            try:
                start = number * RANDOM_BYTES
                new = self._new_job(request, now_ms, randomness[start : start + RANDOM_BYTES], named=False)
            except TickwheelError as error:
                answers.append(error)
            else:
                answers.append(_UNANSWERED)
                wanted.append((number, request, new))
            if number % ITEMS_A_TURN == ITEMS_A_TURN - 1:
                await self._clock.sleep_ms(0)
        if wanted:
            await self._commit(wanted, answers)
        return answers

    async def _commit(
        self, wanted: Sequence[tuple[int, JobRequest, NewJob]], answers: list[Created | TickwheelError]
    ) -> None:
        inserted = await self._store.insert_jobs([new for _, _, new in wanted])
        to_arm = []
        for (number, request, new), done in zip(wanted, inserted, strict=True):
            answers[number] = _answer(request, new, done)
            if done.status is InsertStatus.CREATED and new.timer is not None:
                to_arm.append((new.job, new.timer))
        if to_arm:
            self._owner.arm(first_timer_rows(to_arm))


_UNANSWERED: Final = TickwheelError("the store gave no answer")


def with_key(request: JobRequest, header_key: str | None) -> JobRequest:
    """`request` under the key of the header, if there is one. Raises `IdempotencyKeyMismatch`."""
    if header_key is None or header_key == request.idempotency_key:
        return request
    if request.idempotency_key is not None:
        raise IdempotencyKeyMismatch("the Idempotency-Key header and idempotency_key differ; send one of them")
    return replace(request, idempotency_key=header_key)


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
