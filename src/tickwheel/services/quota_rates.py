"""What new jobs use of their tenant's limits that count by time: runs due in one second, and bytes of payload."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tickwheel.domain.errors import QuotaExceeded
from tickwheel.domain.quotas import LimitName, TenantLimits
from tickwheel.domain.token_bucket import TokenBucket
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import NewJob
from tickwheel.services.quota_counts import DueCounts

SOON_MS: Final = 5_000
FAR_RETRY_S: Final = 60
"""What is refused for a second far ahead is not to be had a moment later."""
BUCKETS: Final = 50_000


class Used(NamedTuple):
    """What one job takes. `second`: in which it is due, where that is counted."""

    second: int | None
    payload_bytes: int


NOTHING_USED: Final = Used(None, 0)


class Rates:
    """One node's. `note_refused` is told of each refusal; `parts` nodes share the bytes evenly."""

    def __init__(self, clock: Clock, note_refused: Callable[[str, LimitName], None]) -> None:
        self._clock, self._note_refused = clock, note_refused
        self._payloads: dict[str, TokenBucket] = {}
        self._due = DueCounts()
        self._parts = 1

    def share(self, parts: int) -> None:
        """So many nodes share the limits from now on."""
        self._parts = parts
        for bucket in self._payloads.values():
            bucket.share(parts)

    def settle_rules(self, limits_of: Callable[[str], TenantLimits]) -> None:
        """Whoever's rate is another one begins with a full bucket; the others go on as they were."""
        for tenant_id, bucket in list(self._payloads.items()):
            if limits_of(tenant_id).payload_bytes_per_second != bucket.rate[0]:
                del self._payloads[tenant_id]

    def due_in(self, tenant_id: str, second: int) -> int:
        """How many runs of the tenant were made here for that second."""
        return self._due.used(tenant_id, second)

    def payload_bytes_spent(self, tenant_id: str) -> int:
        """How many bytes have to come back until the tenant may store a whole second's worth."""
        bucket = self._payloads.get(tenant_id)
        return 0 if bucket is None else bucket.spent(self._clock.monotonic_ms())

    def take_all(self, tenant_id: str, jobs: Sequence[NewJob], limits: TenantLimits) -> Sequence[Used] | None:
        """What these take, if there is room for all of them at once; else None, and nothing is taken."""
        seconds: list[int | None] = [None] * len(jobs)
        sizes = [0] * len(jobs)
        counts, now_ms = Counter[int](), self._clock.now_ms()
        if limits.payload_bytes_per_second is not None:
            sizes = [size_of(new.job.payload) for new in jobs]
        if limits.due_per_second is not None:
            seconds = [None if new.timer is None else max(new.timer.due_ms, now_ms) // 1_000 for new in jobs]
            counts = Counter(second for second in seconds if second is not None)
            if not self._due.take_many(tenant_id, counts, limits.due_per_second, now_ms // 1_000):
                return None
        if limits.payload_bytes_per_second is not None:
            bucket = self._bucket(tenant_id, limits.payload_bytes_per_second)
            if not bucket.take_of_level(sum(sizes), self._clock.monotonic_ms()):
                for second, count in counts.items():
                    self._due.give_back(tenant_id, second, count)
                return None
        return [Used(*one) for one in zip(seconds, sizes, strict=True)]

    def take(self, tenant_id: str, new: NewJob, limits: TenantLimits) -> Used:
        """What this one takes. Raises `QuotaExceeded`, and then nothing is taken."""
        second, size_bytes = None, 0
        if limits.due_per_second is not None and new.timer is not None:
            now_ms = self._clock.now_ms()
            second = max(new.timer.due_ms, now_ms) // 1_000
            if not self._due.take(tenant_id, second, limits.due_per_second, now_ms // 1_000):
                self._note_refused(tenant_id, LimitName.DUE_PER_SECOND)
                raise _too_many_due(limits.due_per_second, second, now_ms)
        rate = limits.payload_bytes_per_second
        if rate is not None:
            size_bytes, now_ms, bucket = (
                size_of(new.job.payload),
                self._clock.monotonic_ms(),
                self._bucket(tenant_id, rate),
            )
            if not bucket.take(size_bytes, now_ms):
                if second is not None:
                    self._due.give_back(tenant_id, second)
                self._note_refused(tenant_id, LimitName.PAYLOAD_BYTES_PER_SECOND)
                wait_ms = bucket.wait_ms(size_bytes, now_ms)
                raise QuotaExceeded(
                    f"the tenant may store {rate} bytes of payload per second; send it again in {wait_ms} ms",
                    limit=LimitName.PAYLOAD_BYTES_PER_SECOND,
                    retry_after_s=max(1, -(-wait_ms // 1_000)),
                    used=rate,
                    allowed=rate,
                )
        return Used(second, size_bytes)

    def free(self, tenant_id: str, used: Used) -> None:
        """The job was not made."""
        if used.second is not None:
            self._due.give_back(tenant_id, used.second)
        if used.payload_bytes and (bucket := self._payloads.get(tenant_id)) is not None:
            bucket.give_back(used.payload_bytes)

    def _bucket(self, tenant_id: str, rate: int) -> TokenBucket:
        bucket = self._payloads.get(tenant_id)
        if bucket is None:
            now_ms = self._clock.monotonic_ms()
            bucket = add_bucket(self._payloads, tenant_id, TokenBucket(rate, rate, now_ms, self._parts), now_ms)
        return bucket


def add_bucket(buckets: dict[str, TokenBucket], tenant_id: str, bucket: TokenBucket, now_ms: int) -> TokenBucket:
    """Keep one more; those that are full are forgotten when there are many."""
    if len(buckets) >= BUCKETS:
        for name in [name for name, one in buckets.items() if one.is_full(now_ms)]:
            del buckets[name]
    buckets[tenant_id] = bucket
    return bucket


def size_of(payload: str) -> int:
    """In bytes, as it is sent."""
    return len(payload) if payload.isascii() else len(payload.encode())


def _too_many_due(allowed: int, second: int, now_ms: int) -> QuotaExceeded:
    is_soon = second * 1_000 - now_ms < SOON_MS
    return QuotaExceeded(
        f"{allowed} runs of the tenant are due in that second, which is all it may have; spread them, for"
        " instance by an instant that differs from job to job by some seconds",
        limit=LimitName.DUE_PER_SECOND,
        retry_after_s=1 if is_soon else FAR_RETRY_S,
        used=allowed,
        allowed=allowed,
    )
