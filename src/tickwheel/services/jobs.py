"""The use cases of jobs. What a method has done is committed when it returns."""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from tickwheel.domain.cron import CronError, Preview, preview
from tickwheel.domain.errors import (
    EgressRefused,
    FieldProblem,
    InvalidRequest,
    NotFound,
    TickwheelError,
    VersionMismatch,
)
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import DEFAULT_TENANT, ScheduleType, Spec, Target
from tickwheel.domain.limits import PREVIEW_COUNT_MAX, TAG_COUNT
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.patch import JobPatch, patched
from tickwheel.domain.requests.request import parse_job_requests
from tickwheel.domain.requests.tenancy import own
from tickwheel.domain.requests.text_rules import key_fault
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.owner import Owner
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, JobPage, JobQuery, JobView, NewJob, Store
from tickwheel.services.aftermath import Aftermath, Seen
from tickwheel.services.changes.edit import edit
from tickwheel.services.changes.end import cancel, delete
from tickwheel.services.changes.hold import pause, resume
from tickwheel.services.changes.named import replace_named
from tickwheel.services.changes.taken import Taken, knowing_taken
from tickwheel.services.ingest import ITEMS_A_TURN, Created, Ingest, InsertJobs, every_shard, with_key, with_trace
from tickwheel.services.quota_room import Room, room_for_one
from tickwheel.services.quotas import Quotas
from tickwheel.services.sealing import Sealing
from tickwheel.services.shedding import Shedding

__all__ = ["Created", "Jobs", "Put", "PutOutcome", "RefuseTarget"]

RefuseTarget: TypeAlias = Callable[[str, Target], None]
"""Raises `EgressRefused` if the tenant's jobs may not call this target."""

PREVIEW_COUNT: Final = 5
TRIGGERED_BY: Final = "triggered-by:"
"""Tag of a job that was made by triggering another one; the other's id follows."""


class PutOutcome(StrEnum):
    """What putting by name did."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Put(msgspec.Struct, frozen=True):
    """A job that was put by name, as it is now."""

    view: JobView
    outcome: PutOutcome
    warnings: tuple[str, ...] = ()


class Jobs:
    """Create, look, change and end jobs.

    `tenant_id` bounds every look-up; a job of another tenant is `NotFound`. All methods may raise
    `StoreUnavailable` and `OutcomeUnknown`. With an `act`, a change is in the audit log by the same commit.
    """

    def __init__(
        self,
        store: Store,
        owner: Owner,
        clock: Clock,
        randomness: Randomness,
        held_shards: Callable[[], Sequence[int]] = every_shard,
        insert_jobs: InsertJobs | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self._ingest = Ingest(store, owner, clock, randomness, held_shards, insert_jobs)
        self._aftermath = Aftermath(owner)
        self._shedding: Shedding | None = None
        self._quotas: Quotas | None = None
        self._refuse_target: RefuseTarget = lambda tenant_id, target: None
        self._sealing = self._ingest.sealing

    def refuse_by(self, refuse_target: RefuseTarget) -> None:
        """Ask it about the target of each job that is made, put or triggered, and of an edit that changes it."""
        self._refuse_target = refuse_target

    def seal_by(self, sealing: Sealing) -> None:
        """Let it settle the secrets of targets before they are stored."""
        self._sealing = self._ingest.sealing = sealing

    def limit_by(self, quotas: Quotas) -> None:
        """Hold tenants to their limits."""
        self._quotas = self._ingest.quotas = quotas

    def shed_by(self, shedding: Shedding) -> None:
        """Refuse new jobs while it says so."""
        self._shedding, self._ingest.counted = shedding, shedding.inserting

    def check_room(self) -> None:
        """Before a request for new jobs is read. Raises `Overloaded`."""
        if self._shedding is not None:
            self._shedding.check()

    def _check_tenants(self, requests: Sequence[JobRequest | TickwheelError]) -> None:
        if self._shedding is not None:
            self._shedding.check_tenants(Counter(r.tenant_id for r in requests if isinstance(r, JobRequest)))

    async def create(
        self, request: JobRequest, idempotency_key_header: str | None = None, *, act: Act | None = None
    ) -> Created:
        """Make one job.

        Raises `InvalidRequest`, `EgressRefused`, `IdempotencyKeyMismatch` and `IdempotencyConflict`.
        """
        if idempotency_key_header is not None:
            fault = key_fault(idempotency_key_header)
            if fault is not None:
                raise InvalidRequest([FieldProblem("Idempotency-Key", fault)])
        self._refuse_target(request.tenant_id, request.spec.target)
        self._check_tenants([request])
        (answer,) = await self._ingest.insert([with_key(request, idempotency_key_header)], act)
        if isinstance(answer, TickwheelError):
            raise answer
        return answer

    def _unless_refused(self, request: JobRequest | TickwheelError) -> JobRequest | TickwheelError:
        if isinstance(request, JobRequest):
            try:
                self._refuse_target(request.tenant_id, request.spec.target)
            except EgressRefused as refusal:
                return refusal
        return request

    async def create_many(
        self, items: Sequence[bytes], *, bound_tenant: str | None = None, act: Act | None = None
    ) -> list[Created | TickwheelError]:
        """Make the jobs of many raw requests in one durable commit; an answer or an error for each, in order.

        With a `bound_tenant` all are of that one; an item that names another is wrong.
        """
        requests: list[JobRequest | TickwheelError] = []
        for start in range(0, len(items), ITEMS_A_TURN):
            if start:
                await self._clock.sleep_ms(0)
            parsed = parse_job_requests(items[start : start + ITEMS_A_TURN], bound_tenant or DEFAULT_TENANT)
            bound = parsed if bound_tenant is None else [_owned(one, bound_tenant) for one in parsed]
            requests += map(self._unless_refused, bound)
        self._check_tenants(requests)
        return await self._ingest.insert(requests, act)

    async def put_named(self, name: str, request: JobRequest, *, act: Act | None = None) -> Put:
        """Make or change the job called `name` so that it has this definition; an equal one changes nothing.

        Raises `InvalidRequest`, `EgressRefused`, `SecretStays` and `Conflict`.
        """
        _check_named(name, request)
        self._refuse_target(request.tenant_id, request.spec.target)
        self._check_tenants([request])
        request = with_trace(replace(request, name=name), "" if act is None else act.trace)
        now_ms = self._clock.now_ms()
        async with room_for_one(self._quotas, lambda: self._ingest.new_job(request, now_ms, named=True)) as room:
            return await self._put_named(name, request, room, act)

    async def _put_named(self, name: str, request: JobRequest, room: Room, act: Act | None) -> Put:
        seen = Seen()

        async def put(taken: Taken) -> JobView:
            def decide(view: JobView | None, now_ms: int) -> NewJob | Change:
                seen.view = view
                room.check(makes=view is None)
                if view is None:
                    return self._ingest.new_job(request, now_ms, named=True)
                return replace_named(view, self._sealing.settle(request, view.job.spec), now_ms, taken)

            changed = await self._store.put_named(request.tenant_id, name, decide, act)
            return self._aftermath.of(seen, changed)

        view = await knowing_taken(self._store, put)
        if seen.view is None:
            return Put(view, PutOutcome.CREATED, request.warnings)
        same = seen.view.job.version == view.job.version
        return Put(view, PutOutcome.UNCHANGED if same else PutOutcome.CHANGED, request.warnings)

    async def get(self, tenant_id: str, job_id: bytes) -> JobView:
        """The job as it is now. Raises `NotFound`."""
        view = await self._store.get_job(tenant_id, job_id)
        if view is None:
            raise _no_such_job(job_id)
        return view

    async def list(self, query: JobQuery) -> JobPage:
        """A page of jobs. Raises `UnsupportedFilter` and `BadCursor`."""
        return await self._store.list_jobs(query)

    async def edit(
        self,
        tenant_id: str,
        job_id: bytes,
        patch: JobPatch,
        if_match_version: int | None = None,
        *,
        act: Act | None = None,
    ) -> JobView:
        """Change the definition.

        Raises `NotFound`, `VersionMismatch`, `InvalidRequest`, `EgressRefused`, `SecretStays` and `Conflict`.
        """

        def decide(view: JobView, now_ms: int, taken: Taken) -> Change:
            _match(view, if_match_version)
            wanted = self._sealing.settle(patched(view.job, patch), view.job.spec)
            if wanted.spec.target != view.job.spec.target:
                self._refuse_target(tenant_id, wanted.spec.target)
            if self._quotas is not None and wanted.payload != view.job.payload:
                self._quotas.check_payload(tenant_id, wanted.payload)
            return edit(view, wanted, now_ms, taken)

        return await self._change(tenant_id, job_id, decide, act)

    async def pause(
        self, tenant_id: str, job_id: bytes, if_match_version: int | None = None, *, act: Act | None = None
    ) -> JobView:
        """Hold the job. Repeatable. Raises `NotFound`, `VersionMismatch` and `Conflict`."""

        def decide(view: JobView, now_ms: int, taken: Taken) -> Change:
            _match(view, if_match_version)
            return pause(view, now_ms, taken)

        return await self._change(tenant_id, job_id, decide, act)

    async def resume(
        self, tenant_id: str, job_id: bytes, if_match_version: int | None = None, *, act: Act | None = None
    ) -> JobView:
        """Go on after a pause. Repeatable. Raises `NotFound`, `VersionMismatch` and `Conflict`."""

        def decide(view: JobView, now_ms: int, taken: Taken) -> Change:
            _match(view, if_match_version)
            return resume(view, now_ms, taken)

        return await self._change(tenant_id, job_id, decide, act)

    async def cancel(self, tenant_id: str, job_id: bytes, *, act: Act | None = None) -> JobView:
        """End the job: no attempt of it commits after this. Repeatable. Raises `NotFound` and `Conflict`."""
        return await self._change(tenant_id, job_id, lambda view, now_ms, _: cancel(view, now_ms), act)

    async def delete(self, tenant_id: str, job_id: bytes, *, act: Act | None = None) -> None:
        """Cancel the job and take it away. Raises `NotFound`, the second time too."""
        await self._change(tenant_id, job_id, lambda view, now_ms, _: delete(view, now_ms), act)

    async def trigger(
        self, tenant_id: str, job_id: bytes, idempotency_key: str | None = None, *, act: Act | None = None
    ) -> Created:
        """Run the job now, whatever its state: an INSTANT job of its own with the same target and payload.

        It has the same name and a tag that names the triggered job. Raises `NotFound` and `EgressRefused`.
        """
        job = (await self.get(tenant_id, job_id)).job
        spec = Spec(target=job.spec.target, retry=job.spec.retry)
        link = TRIGGERED_BY + job_id_text(job.job_id)
        kept = tuple(tag for tag in job.tags if not tag.startswith(TRIGGERED_BY))[: TAG_COUNT - 1]
        request = JobRequest(
            tenant_id, job.name, ScheduleType.INSTANT, job.lane, spec, job.payload, tags=(*kept, link)
        )
        return await self.create(request, idempotency_key, act=act)

    def preview(
        self, expression: str, timezone: str = "UTC", start_ms: int | None = None, count: int = 5
    ) -> Preview:
        """The next `count` occurrences after `start_ms` (default: now). Raises `InvalidRequest`."""
        if not 1 <= count <= PREVIEW_COUNT_MAX:
            raise InvalidRequest([FieldProblem("count", f"must be from 1 to {PREVIEW_COUNT_MAX}")])
        after_ms = self._clock.now_ms() if start_ms is None else start_ms
        try:
            return preview(expression, timezone, after_ms, count)
        except CronError as error:
            field = "timezone" if error.field == "timezone" else "cron_expression"
            raise InvalidRequest([FieldProblem(field, str(error))]) from error

    async def _change(
        self,
        tenant_id: str,
        job_id: bytes,
        decide: Callable[[JobView, int, Taken], Change],
        act: Act | None,
    ) -> JobView:
        seen = Seen()

        async def change(taken: Taken) -> JobView:
            def decision(view: JobView, now_ms: int) -> Change:
                seen.view = view
                return decide(view, now_ms, taken)

            changed = await self._store.change_job(tenant_id, job_id, decision, act)
            if changed is None:
                raise _no_such_job(job_id)
            return self._aftermath.of(seen, changed)

        return await knowing_taken(self._store, change)


def _owned(request: JobRequest | InvalidRequest, bound_tenant: str) -> JobRequest | InvalidRequest:
    if isinstance(request, InvalidRequest):
        return request
    try:
        return own(request, bound_tenant)
    except InvalidRequest as error:
        return error


def _match(view: JobView, version: int | None) -> None:
    if version is not None and view.job.version != version:
        raise VersionMismatch(f"the job is at version {view.job.version}, not {version}; read it again")


def _check_named(name: str, request: JobRequest) -> None:
    problems = []
    if request.name not in ("", name):
        problems.append(FieldProblem("job_name", f"differs from the name in the path ({name!r}); leave it out"))
    if request.delay_ms is not None:
        message = "would start anew with every put; use execute_at or run_at_epoch_ms"
        problems.append(FieldProblem("delay_seconds", message, "conflict"))
    if request.idempotency_key is not None:
        message = "goes with POST only: putting by name is repeatable by itself"
        problems.append(FieldProblem("idempotency_key", message, "conflict"))
    if problems:
        raise InvalidRequest(problems)


def _no_such_job(job_id: bytes) -> NotFound:
    return NotFound(f"there is no job {job_id_text(job_id)}")
