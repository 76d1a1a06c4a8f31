"""Takes queued runs for a worker and begins them: hints from the queue become attempts that may start.

The order is what keeps each run single (F1) and none forgotten: take the hints, *begin* them in the ledger under
the worker's name, and only then ack the packs. Whoever dies before the begin leaves hints that become visible
again; whoever dies after it leaves runs whose worker is on record. Hints that begin nothing (stale, somebody
else's, cancelled meanwhile) are acked away all the same: the ledger knows better than they do.

Example: two workers hold the same hint, because the owner published it twice. Both begin; one finds the row
CLAIMED and gets the attempt, the other finds it RUNNING, drops the hint, and nobody calls the handler twice.

A worker of one tenant looks where only hints of that tenant are. What is somebody else's all the same goes back,
and the worker hears nothing of it.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from tickwheel.domain.columns import COMPLETION, CompletionCause, Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.job import Spec
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Delivery, Queue, Topic, route_of, shared_route
from tickwheel.ports.store import AttemptNote, Store, WorkDefinition
from tickwheel.services.plans import read_spec

TRIES: Final = 20
PAUSE_MS: Final = 250
"""Between tries while the store is away; all of them together are well within a lease."""

STRAY: Final = AttemptNote(error="not started: it is for another worker, maybe since an edit", excerpt=None)

Held: TypeAlias = tuple[np.void, int, int]
"""A HINT row that began, its attempt number and the workers lost before it."""


class Begun(msgspec.Struct, frozen=True, gc=False):
    """An attempt that began in the ledger as the worker's: it has to be executed, or handed back."""

    job_id: bytes
    scheduled_ms: int
    fence: int
    attempt: int
    lost_count: int
    flags: int
    lease_ms: int  # wall clock of the store
    sent_mono_ms: int  # when the begin was sent: the attempt's own clock starts there (F7)
    definition: WorkDefinition
    spec: Spec


class Taken(msgspec.Struct, frozen=True):
    """What came of one take. `broken` began but can't be executed: its definition can't be read."""

    begun: Sequence[Begun]
    broken: Sequence[tuple[bytes, int, int]]  # job id, scheduled ms, fencing token
    seen: int  # hints that were taken, stale ones included


class Taking:
    """One queue and one store."""

    def __init__(self, *, queue: Queue, store: Store, clock: Clock, lease_length_ms: int) -> None:
        self._queue, self._store, self._clock = queue, store, clock
        self._lease_length_ms = lease_length_ms
        self._last_lease_ms = 0

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        """Until something may be there to take."""
        await self._queue.wait(topics, limit_ms)

    async def take(self, worker: str, topics: Sequence[Topic], limit: int, tenant_id: str | None = None) -> Taken:
        """Begin at most `limit` runs of these topics, in their order, as the worker of that incarnation.

        With `tenant_id` only runs of that tenant are given, whatever the queue holds.

        Raises `ConnectionError` (the queue can't be reached) and `StoreUnavailable`. If it is not known whether
        something began, that is found out first, with several tries.
        """
        deliveries = await self._queue.take(topics, limit)
        if not deliveries:
            return Taken((), (), 0)
        wanted, left = list[Delivery](), list[Delivery]()
        room = limit
        for delivery in deliveries:  # a single pack may be larger than the free slots
            (wanted if len(delivery.rows) <= room else left).append(delivery)
            room -= len(delivery.rows) if len(delivery.rows) <= room else 0
        if not wanted:
            return await self._take_part(worker, left, limit, tenant_id)
        with suppress(ConnectionError):
            if left:
                await self._queue.nack([one.receipt for one in left])
        return await self._begin(worker, wanted, _joined(wanted), tenant_id)

    async def _take_part(
        self, worker: str, deliveries: Sequence[Delivery], limit: int, tenant_id: str | None
    ) -> Taken:
        """Begin the first of a pack that is larger than the room; the rest goes back as hints of its own."""
        first, others = deliveries[0], deliveries[1:]
        rest = first.rows[limit:]
        try:
            await self._queue.publish(first.topic, rest)
            if others:
                await self._queue.nack([one.receipt for one in others])
        except ConnectionError:  # visible again later, all of it
            return Taken((), (), 0)
        return await self._begin(worker, [first], first.rows[:limit], tenant_id)

    async def _begin(
        self, worker: str, deliveries: Sequence[Delivery], hints: Rows, tenant_id: str | None
    ) -> Taken:
        mono_ms = self._clock.monotonic_ms()
        # Increasing, so that it tells this begin from all others of this process (`_read_back`).
        lease_ms = self._last_lease_ms = max(self._last_lease_ms + 1, self._clock.now_ms() + self._lease_length_ms)
        try:
            held = _held(hints, await self._store.begin(hints, worker, lease_ms))
        except OutcomeUnknown:
            held = await self._find_out(worker, hints, lease_ms)
        taken = await self._load(held, lease_ms, mono_ms, len(hints))
        routes = {shared_route(one.topic.route) for one in deliveries}
        strays = [one for one in taken.begun if _is_stray(one, routes, tenant_id)]
        if strays:
            await self._hand_back(strays)
            taken = replace(taken, begun=[one for one in taken.begun if one not in strays])
        with suppress(ConnectionError):  # else they come again, and begin nothing
            await self._queue.ack([one.receipt for one in deliveries])
        return taken

    async def _hand_back(self, strays: Sequence[Begun]) -> None:
        """They are for other workers, most likely since their jobs were edited: no attempt is used up."""
        rows = np.zeros(len(strays), dtype=COMPLETION)
        now_ms = self._clock.now_ms()
        for row, one in zip(rows, strays, strict=True):
            row["job_id"], row["scheduled_ms"], row["fence"] = np.void(one.job_id), one.scheduled_ms, one.fence
            row["attempt"], row["lost_count"], row["flags"] = one.attempt, one.lost_count, one.flags
        rows["due_ms"], rows["state"], rows["cause"] = -1, RunState.SCHEDULED, CompletionCause.UNSTARTED
        rows["outcome"], rows["finished_ms"], rows["retry_ms"] = OutcomeClass.UNSTARTED, now_ms, now_ms
        with suppress(StoreUnavailable):  # else they come back with their leases
            await self._store.complete(rows, dict.fromkeys(range(len(rows)), STRAY))

    async def _find_out(self, worker: str, hints: Rows, lease_ms: int) -> list[Held]:
        """Which of these began, after an answer that was lost: begin again, then look at those that did not."""
        for _ in range(TRIES):
            await self._clock.sleep_ms(PAUSE_MS)
            with suppress(StoreUnavailable):  # unknown once more is no worse
                begun = await self._store.begin(hints, worker, lease_ms)
                others = hints[begun["held"] == 0]
                return _held(hints, begun) + await self._read_back(worker, others, lease_ms)
        raise StoreUnavailable("it could not be found out whether runs began; they come back with their leases")

    async def _read_back(self, worker: str, hints: Rows, lease_ms: int) -> list[Held]:
        """What the begin that went unanswered wrote: never renewed, and with its very lease.

        Not just anything that runs as this worker's: a hint may come twice, and the first one may have been begun.
        """
        keys = list(zip(hints["job_id"].tolist(), hints["scheduled_ms"].tolist(), strict=True))
        runs = await self._store.find_runs(keys)
        return [
            (hint, run.attempt, run.lost_count)
            for hint, run in zip(hints, runs, strict=True)
            if run is not None
            and (run.state, run.worker, run.fence) == (RunState.RUNNING, worker, int(hint["fence"]))
            and (run.lease_ms, run.beat_ms) == (lease_ms, run.started_ms)
        ]

    async def _load(self, held: Sequence[Held], lease_ms: int, mono_ms: int, seen: int) -> Taken:
        if not held:
            return Taken((), (), seen)
        definitions = await self._read_definitions([hint["job_id"].tobytes() for hint, _, _ in held])
        begun, broken = list[Begun](), list[tuple[bytes, int, int]]()
        for (hint, attempt, lost_count), definition in zip(held, definitions, strict=True):
            key = hint["job_id"].tobytes(), int(hint["scheduled_ms"]), int(hint["fence"])
            spec = None if definition is None else _read(definition)
            if definition is None or spec is None:
                broken.append(key)
                continue
            begun.append(Begun(*key, attempt, lost_count, int(hint["flags"]), lease_ms, mono_ms, definition, spec))
        return Taken(begun, broken, seen)

    async def _read_definitions(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        """Patiently: the attempts have begun, and nobody else can execute them."""
        for _ in range(TRIES):
            with suppress(StoreUnavailable):
                return await self._store.load_work(job_ids)
            await self._clock.sleep_ms(PAUSE_MS)
        return await self._store.load_work(job_ids)


def _is_stray(begun: Begun, routes: Collection[str], tenant_id: str | None) -> bool:
    """Whether the worker that looked for these routes, for that tenant, must not have it."""
    if tenant_id is not None and begun.definition.tenant_id != tenant_id:
        return True
    return route_of(begun.spec.target) not in routes


def _held(hints: Rows, begun: Rows) -> list[Held]:
    held = begun["held"] == 1
    columns = begun["attempt"][held].tolist(), begun["lost_count"][held].tolist()
    return list(zip(hints[held], *columns, strict=True))


def _joined(deliveries: Sequence[Delivery]) -> Rows:
    return deliveries[0].rows if len(deliveries) == 1 else np.concatenate([one.rows for one in deliveries])


def _read(definition: WorkDefinition) -> Spec | None:
    try:
        return read_spec(definition.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
