"""Holds tenants to their limits where their requests come in: on this node, before anything is written.

**Requests and payload bytes per second** are token buckets; each of the nodes that serve the API has an even share
of a limit. **Jobs** are counted in the store now and then, and by what is made here in between, so on one node the
limit is exact; beside others it may be passed by what they make within ten seconds. **Runs due in one second** are
counted for jobs that were made here; whatever comes together all the same starts at that rate only (see
`gates.tenant_gate`).

A request that is sent again under its idempotency key is answered as before whatever is used up meanwhile: it
makes nothing.

A limit that nobody has costs nothing: what there is to look at is settled when a record changes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from tickwheel.domain.concurrency import whole_tenant
from tickwheel.domain.errors import (
    FieldProblem,
    InvalidRequest,
    QuotaExceeded,
    TenantDisabled,
    TickwheelError,
)
from tickwheel.domain.quotas import LimitName, TenantLimits
from tickwheel.domain.token_bucket import TokenBucket
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.store import NewJob
from tickwheel.services.quota_counts import KNOWN_TENANTS, JobCount, RequestCounts
from tickwheel.services.quota_rates import Rates, Used, add_bucket, size_of
from tickwheel.services.tenants import Tenants

JOBS_RETRY_S: Final = 60
DISABLED: Final = "disabled"
"""Beside the names of limits: what a request of a disabled tenant is refused for."""
COUNTED_JOBS: Final = 100_000
"""Where no limit asks for more, the usage says "at least so many" from here on."""

_CREATION: Final = (
    LimitName.MAX_JOBS,
    LimitName.MAX_PAYLOAD_BYTES,
    LimitName.PAYLOAD_BYTES_PER_SECOND,
    LimitName.DUE_PER_SECOND,
)


class QuotaStore(Protocol):
    """The part of a store that is asked."""

    async def count_jobs(self, tenant_id: str, at_most: int) -> int: ...

    async def count_running(self, counted: str) -> int: ...

    async def find_keys(self, keys: Sequence[Key]) -> Sequence[KeyHolder | None]: ...


class Usage(msgspec.Struct, frozen=True):
    """What a tenant uses. Jobs and runs in flight are those of the store, the rest is what this node has seen.

    `jobs_at_least`: there may be more. `running` None: nobody counts them, for they are not limited.
    """

    jobs: int
    jobs_at_least: bool
    running: int | None
    due_this_second: int
    payload_bytes_spent: int
    requests_last_second: int
    requests_last_minute: int
    refused: dict[str, int]


class _Held(NamedTuple):
    """What admitted jobs of one tenant hold until they are stored or not."""

    tenant_id: str
    counted: bool  # among the tenant's jobs
    numbers: Sequence[int]  # which of the insert's jobs they are
    used: Sequence[Used]  # by time, in the same order; empty: nothing


class Admission:
    """What became of the jobs of one insert: an error or None for each, in order."""

    def __init__(self, errors: Sequence[TickwheelError | None], held: Sequence[_Held]) -> None:
        self.errors, self.held = errors, held


class Quotas:
    """One node's. `api_nodes` says how many nodes serve the API, this one included."""

    def __init__(
        self, tenants: Tenants, store: QuotaStore, clock: Clock, api_nodes: Callable[[], int] = lambda: 1
    ) -> None:
        self._tenants, self._store, self._clock, self._api_nodes = tenants, store, clock, api_nodes
        self._requests: dict[str, TokenBucket] = {}
        self._rates = Rates(clock, self._note_refused)
        self._jobs: dict[str, JobCount] = {}
        self._came = RequestCounts()
        self._refused: dict[str, Counter[str]] = {}
        self.refused: Counter[str] = Counter()
        """Of all tenants, by the name of the limit."""
        self._parts = 1
        self._guards_requests = self.bounds_jobs = False
        """`bounds_jobs`: whether making jobs is bounded for anybody."""
        tenants.when_changed(self._settle_rules)

    def _settle_rules(self) -> None:
        everybody = [self._tenants.defaults, *self._tenants.known.values()]
        disabled = any(one.disabled for one in everybody)
        self._guards_requests = disabled or any(one.limits.requests_per_second for one in everybody)
        self.bounds_jobs = disabled or any(
            getattr(one.limits, name) is not None for one in everybody for name in _CREATION
        )
        self._rates.settle_rules(lambda tenant_id: self._tenants.of(tenant_id).limits)
        for tenant_id, bucket in list(self._requests.items()):
            if _request_rate(self._tenants.of(tenant_id).limits) != bucket.rate:
                del self._requests[tenant_id]

    def check_request(self, tenant_id: str, *, by_operator: bool = False) -> None:
        """Before a request of the tenant is looked at. Raises `QuotaExceeded` and `TenantDisabled`.

        `by_operator`: made by somebody who may act for all tenants, and so may look after a disabled one.
        """
        now_ms = self._clock.monotonic_ms()
        if self._came.note(tenant_id, now_ms):
            self._renew_share()
        if not self._guards_requests:
            return
        settings = self._tenants.of(tenant_id)
        if settings.disabled and not by_operator:
            raise self._disabled(tenant_id)
        rate = settings.limits.requests_per_second
        if rate is None:
            return
        bucket = self._requests.get(tenant_id)
        if bucket is None:
            fresh = TokenBucket(*_request_rate(settings.limits), now_ms, self._parts)
            bucket = add_bucket(self._requests, tenant_id, fresh, now_ms)
        if not bucket.take(1, now_ms):
            self._note_refused(tenant_id, LimitName.REQUESTS_PER_SECOND)
            wait_ms = bucket.wait_ms(1, now_ms)
            raise QuotaExceeded(
                f"the tenant may make {rate} requests per second; send it again in {wait_ms} ms",
                limit=LimitName.REQUESTS_PER_SECOND,
                retry_after_s=max(1, -(-wait_ms // 1_000)),
                used=rate,
                allowed=rate,
            )

    def check_payload(self, tenant_id: str, payload: str) -> None:
        """Before a job gets this payload by an edit. Raises `InvalidRequest`."""
        most = self._tenants.of(tenant_id).limits.max_payload_bytes if self.bounds_jobs else None
        if most is not None:
            self._check_size(tenant_id, size_of(payload), most)

    async def admit(self, jobs: Sequence[NewJob]) -> Admission:
        """Which of these may be stored; those hold what they need until `settle`."""
        errors: list[TickwheelError | None] = [None] * len(jobs)
        held: list[_Held] = []
        by_tenant: dict[str, list[int]] = {}
        for number, new in enumerate(jobs):
            by_tenant.setdefault(new.job.tenant_id, []).append(number)
        try:
            for tenant_id, numbers in by_tenant.items():
                held.append(await self._admit_of(tenant_id, jobs, numbers, errors))
            await self._let_through_replays(jobs, errors)
        except BaseException:  # the store is away, or whoever asked
            self.settle(Admission(errors, held), [False] * len(jobs))
            raise
        return Admission(errors, held)

    def settle(self, admission: Admission, made: Sequence[bool]) -> None:
        """Whether each of these was made; what the others held is free again."""
        for held in admission.held:
            unmade = [place for place, number in enumerate(held.numbers) if not made[number]]
            if held.counted and held.numbers:
                self._jobs[held.tenant_id].settle(len(held.numbers), len(held.numbers) - len(unmade))
            if held.used:
                for place in unmade:
                    self._rates.free(held.tenant_id, held.used[place])

    async def usage(self, tenant_id: str) -> Usage:
        """What the tenant uses. Raises `StoreUnavailable`."""
        limits = self._tenants.of(tenant_id).limits
        most = max(COUNTED_JOBS, (limits.max_jobs or 0) + 1)
        jobs = await self._store.count_jobs(tenant_id, most)
        counted = whole_tenant(tenant_id)
        running = None if limits.concurrency is None else await self._store.count_running(counted)
        now_ms = self._clock.monotonic_ms()
        return Usage(
            jobs=jobs,
            jobs_at_least=jobs >= most,
            running=running,
            due_this_second=self._rates.due_in(tenant_id, self._clock.now_ms() // 1_000),
            payload_bytes_spent=self._rates.payload_bytes_spent(tenant_id),
            requests_last_second=self._came.last(tenant_id, 1, now_ms),
            requests_last_minute=self._came.last(tenant_id, 60, now_ms),
            refused=dict(self._refused.get(tenant_id, {})),
        )

    async def _admit_of(
        self,
        tenant_id: str,
        jobs: Sequence[NewJob],
        numbers: Sequence[int],
        errors: list[TickwheelError | None],
    ) -> _Held:
        settings = self._tenants.of(tenant_id)
        limits = settings.limits
        if settings.disabled:
            for number in numbers:
                errors[number] = self._disabled(tenant_id)
            return _Held(tenant_id, False, (), ())
        if limits.max_payload_bytes is not None:
            numbers = [n for n in numbers if self._fits(tenant_id, jobs[n], limits.max_payload_bytes, n, errors)]
        counted = limits.max_jobs is not None
        room = len(numbers)
        if limits.max_jobs is not None and numbers:
            room = await self._room_for_jobs(tenant_id, len(numbers), limits.max_jobs)
        if room == len(numbers):
            if limits.due_per_second is None and limits.payload_bytes_per_second is None:
                return _Held(tenant_id, counted, numbers, ())
            several = len(numbers) > 1
            all_used = self._rates.take_all(tenant_id, [jobs[n] for n in numbers], limits) if several else None
            if all_used is not None:
                return _Held(tenant_id, counted, numbers, all_used)
        return self._admit_some(tenant_id, limits, jobs, numbers, room, errors)

    def _admit_some(
        self,
        tenant_id: str,
        limits: TenantLimits,
        jobs: Sequence[NewJob],
        numbers: Sequence[int],
        room: int,
        errors: list[TickwheelError | None],
    ) -> _Held:
        """One by one, where not all of them may be stored."""
        counted = limits.max_jobs is not None
        admitted: list[int] = []
        used: list[Used] = []
        for number in numbers:
            if len(admitted) == room:
                errors[number] = self._too_many_jobs(tenant_id, limits)
                continue
            try:
                used.append(self._rates.take(tenant_id, jobs[number], limits))
                admitted.append(number)
            except QuotaExceeded as error:
                errors[number] = error
        if counted and len(admitted) < room:
            self._jobs[tenant_id].settle(room - len(admitted), 0)
        return _Held(tenant_id, counted, admitted, used)

    def _fits(
        self, tenant_id: str, new: NewJob, most: int, number: int, errors: list[TickwheelError | None]
    ) -> bool:
        if size_of(new.job.payload) <= most:
            return True
        try:
            self._check_size(tenant_id, size_of(new.job.payload), most)
        except InvalidRequest as error:
            errors[number] = error
        return False

    def _check_size(self, tenant_id: str, size_bytes: int, most_bytes: int) -> None:
        if size_bytes <= most_bytes:
            return
        self._note_refused(tenant_id, LimitName.MAX_PAYLOAD_BYTES)
        message = (
            f"has {size_bytes} bytes; the tenant's limit {LimitName.MAX_PAYLOAD_BYTES.value} allows {most_bytes}"
        )
        raise InvalidRequest([FieldProblem("payload", message, "too_large")])

    async def _room_for_jobs(self, tenant_id: str, wanted: int, limit: int) -> int:
        count = self._jobs.get(tenant_id)
        if count is None:
            if len(self._jobs) >= KNOWN_TENANTS:
                self._jobs = {name: one for name, one in self._jobs.items() if not one.is_idle}
            count = self._jobs[tenant_id] = JobCount()
        return await count.reserve(
            wanted, limit, lambda at_most: self._store.count_jobs(tenant_id, at_most), self._clock
        )

    async def _let_through_replays(self, jobs: Sequence[NewJob], errors: list[TickwheelError | None]) -> None:
        """What was refused and carries a key that is used already: the insert answers it, and makes nothing."""
        asked = [
            (number, (job.tenant_id, job.idempotency_key))
            for number, error in enumerate(errors)
            if isinstance(error, QuotaExceeded) and (job := jobs[number].job).idempotency_key is not None
        ]
        if not asked:
            return
        found = await self._store.find_keys([key for _, key in asked])
        for (number, _), holder in zip(asked, found, strict=True):
            if holder is not None:
                errors[number] = None

    def _renew_share(self) -> None:
        parts = max(1, self._api_nodes())
        if parts != self._parts:
            self._parts = parts
            self._rates.share(parts)
            for bucket in self._requests.values():
                bucket.share(parts)

    def _too_many_jobs(self, tenant_id: str, limits: TenantLimits) -> QuotaExceeded:
        allowed = limits.max_jobs or 0
        used = self._jobs[tenant_id].total
        self._note_refused(tenant_id, LimitName.MAX_JOBS)
        return QuotaExceeded(
            f"the tenant has {used} jobs of the {allowed} that it may have; delete some, or wait until retention"
            " removes those that have ended",
            limit=LimitName.MAX_JOBS,
            retry_after_s=JOBS_RETRY_S,
            used=used,
            allowed=allowed,
        )

    def _disabled(self, tenant_id: str) -> TenantDisabled:
        self._note_refused(tenant_id, DISABLED)
        return TenantDisabled(f"the tenant {tenant_id!r} is disabled")

    def _note_refused(self, tenant_id: str, name: str) -> None:
        self.refused[str(name)] += 1
        counts = self._refused.get(tenant_id)
        if counts is None:
            if len(self._refused) >= KNOWN_TENANTS:
                return
            counts = self._refused[tenant_id] = Counter()
        counts[str(name)] += 1


def _request_rate(limits: TenantLimits) -> tuple[int, int]:
    rate = limits.requests_per_second or 0
    return rate, limits.requests_burst or rate
