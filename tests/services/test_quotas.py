"""Tenants are held to their limits before anything is written: exactly on one node, and never for a replay."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tickwheel.domain.errors import (
    InvalidRequest,
    OutcomeUnknown,
    QuotaExceeded,
    StoreUnavailable,
    TenantDisabled,
    TickwheelError,
)
from tickwheel.domain.quotas import TenantLimits, TenantSettings
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Inserted, NewJob
from tickwheel.services.ingest import Created
from tickwheel.services.jobs import Jobs, PutOutcome
from tickwheel.services.quota_counts import DUE_PAIRS, RECOUNT_MS, DueCounts
from tickwheel.services.quotas import Quotas
from tickwheel.services.tenants import DEFAULTS, Tenants
from tickwheel.testing.seeded_randomness import SeededRandomness

from .desk import TENANT, WEBHOOK, Desk
from .memory_registry import MemoryRegistry

ACT = Act("somebody", "tenant.change")


class QuotaDesk(Desk):
    """`limit` sets what the tenant may use."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = MemoryRegistry()
        self.api_nodes = 1
        self.tenants, self.quotas = self.node()
        self.jobs.limit_by(self.quotas)

    def node(self) -> tuple[Tenants, Quotas]:
        tenants = Tenants(self.registry, self.clock)
        return tenants, Quotas(tenants, self.memory, self.clock, lambda: self.api_nodes)

    async def limit(self, tenant_id: str = TENANT, *, disabled: bool = False, **limits: int) -> None:
        await self.tenants.put(tenant_id, TenantSettings(TenantLimits(**limits), disabled=disabled), ACT)

    async def stored(self, tenant_id: str = TENANT) -> int:
        return await self.memory.count_jobs(tenant_id, 10_000)

    async def batch(self, *items: dict[str, Any]) -> list[str]:
        """Per item "made", "replayed" or why it was refused."""
        answers = await self.jobs.create_many([raw(**item) for item in items])
        return [word(answer) for answer in answers]

    def requests(self, count: int, tenant_id: str = TENANT) -> int:
        """How many of them go through."""
        return sum(self.asks(tenant_id) for _ in range(count))

    def asks(self, tenant_id: str = TENANT) -> bool:
        try:
            self.quotas.check_request(tenant_id)
        except QuotaExceeded as error:
            return error.limit != "requests_per_second"
        return True


def raw(**members: Any) -> bytes:
    return json.dumps(
        {"schedule_type": "DELAYED", "delay_seconds": 60, "target": WEBHOOK} | members, ensure_ascii=False
    ).encode()


def word(answer: Created | TickwheelError) -> str:
    if isinstance(answer, QuotaExceeded):
        return answer.limit
    if isinstance(answer, TickwheelError):
        return answer.code
    return "replayed" if answer.replayed else "made"


async def refusal(desk: QuotaDesk, **members: Any) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        await desk.jobs.create(parse_job_request(raw(**members)))
    return caught.value


async def test_the_last_job_goes_and_the_next_one_is_refused() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=3)
    for _ in range(3):
        await desk.once(60_000)
    error = await refusal(desk)
    assert (error.limit, error.used, error.allowed, error.retry_after_s) == ("max_jobs", 3, 3, 60)
    assert await desk.stored() == 3
    await desk.once(60_000, tenant_id="other")  # whose limit it isn't


async def test_a_batch_beyond_the_limit_is_made_up_to_it() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=4)
    await desk.once(60_000)
    others = {"tenant_id": "other"}
    bad = {"delay_seconds": -1}
    answers = await desk.batch({}, others, {}, bad, {}, {}, others)
    assert answers == ["made", "made", "made", "invalid_request", "made", "max_jobs", "made"]
    assert await desk.stored() == 4
    assert await desk.stored("other") == 2


async def test_requests_at_once_make_no_more_than_the_limit() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=10)
    made = await asyncio.gather(*(desk.once(60_000) for _ in range(30)), return_exceptions=True)
    assert sum(isinstance(one, bytes) for one in made) == 10
    assert await desk.stored() == 10


async def test_deleting_makes_room_a_moment_later_at_most() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=1)
    job_id = await desk.once(60_000)
    await refusal(desk)
    await desk.jobs.delete(TENANT, job_id)
    await desk.clock.advance(500)
    await desk.once(60_000)
    await refusal(desk)


async def test_jobs_of_other_nodes_are_counted_within_ten_seconds() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=5)
    await desk.once(60_000)
    other = Jobs(desk.store, desk.owner, desk.clock, SeededRandomness(9))
    for _ in range(3):
        await other.create(parse_job_request(raw()))
    await desk.clock.advance(RECOUNT_MS)
    assert await desk.batch({}, {}) == ["made", "max_jobs"]


async def test_what_is_not_stored_uses_nothing_up() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=2, due_per_second=2, payload_bytes_per_second=100)
    original, failures = desk.memory.insert_jobs, 5

    async def flaky(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("down")
        return await original(jobs, act)

    desk.memory.insert_jobs = flaky  # type: ignore[method-assign]
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await desk.once(60_000, payload="x" * 40)
    await desk.once(60_000, payload="x" * 40)
    await desk.once(60_000, payload="x" * 40)


@pytest.mark.parametrize("verb", ["find_keys", "count_jobs"])
async def test_what_was_held_is_free_when_the_store_goes_away_while_it_is_asked(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tenants' jobs the first have their room; then the store is asked for the others, or for keys."""
    desk = QuotaDesk()
    await desk.limit(max_jobs=2)
    await desk.limit("second", max_jobs=0)
    works = getattr(desk.memory, verb)

    async def away(*asked: Any) -> Any:
        if asked[0] == TENANT:
            return await works(*asked)
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(desk.memory, verb, away)
        with pytest.raises(StoreUnavailable):
            await desk.batch({}, {}, {"tenant_id": "second", "idempotency_key": "a"})
    assert await desk.batch({}, {}) == ["made", "made"]


async def test_what_may_be_stored_counts_until_the_store_has_told() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=1)

    async def lost(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        raise OutcomeUnknown("lost")

    original, desk.memory.insert_jobs = desk.memory.insert_jobs, lost  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        await desk.once(60_000)
    desk.memory.insert_jobs = original  # type: ignore[method-assign]
    await refusal(desk)
    await desk.clock.advance(500)
    await desk.once(60_000)


async def test_a_request_sent_again_is_answered_though_nothing_is_left() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=2, due_per_second=2)
    first = await desk.batch({"idempotency_key": "a"}, {"idempotency_key": "b"}, {"idempotency_key": "c"})
    assert first == ["made", "made", "max_jobs"]
    again = await desk.batch({"idempotency_key": "a"}, {"idempotency_key": "b"}, {"idempotency_key": "c"})
    assert again == ["replayed", "replayed", "max_jobs"]
    reused = await desk.batch({"idempotency_key": "a", "delay_seconds": 9})
    assert reused == ["idempotency_key_reused"]
    assert await desk.stored() == 2


async def test_replays_with_room_use_nothing_up() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=2)
    for _ in range(5):
        await desk.batch({"idempotency_key": "a"})
    assert await desk.batch({}, {}) == ["made", "max_jobs"]


async def test_putting_by_name_makes_one_only_where_there_is_room_and_changes_all_the_same() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=1, max_payload_bytes=10)
    fields = {"schedule_type": "CRON", "cron_expression": "0 9 * * *"}
    assert (await desk.put("a", **fields)).outcome is PutOutcome.CREATED
    with pytest.raises(QuotaExceeded, match="has 1 jobs of the 1"):
        await desk.put("b", **fields)
    assert (await desk.put("a", **fields, payload="small")).outcome is PutOutcome.CHANGED
    with pytest.raises(InvalidRequest, match="payload: has 21 bytes"):
        await desk.put("a", **fields, payload="far too large to be")
    assert await desk.stored() == 1


async def test_triggering_makes_a_job_too() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=2)
    job_id = await desk.once(60_000)
    await desk.jobs.trigger(TENANT, job_id)
    with pytest.raises(QuotaExceeded):
        await desk.jobs.trigger(TENANT, job_id)


async def test_a_payload_that_is_too_large_is_named() -> None:
    desk = QuotaDesk()
    await desk.limit(max_payload_bytes=12)
    job_id = await desk.once(60_000, payload="0123456789")  # with its quotes 12
    with pytest.raises(InvalidRequest) as caught:
        await desk.jobs.create(parse_job_request(raw(payload="€€€€")))
    [problem] = caught.value.problems
    assert (problem.field, problem.code) == ("payload", "too_large")
    assert problem.message == "has 14 bytes; the tenant's limit max_payload_bytes allows 12"
    with pytest.raises(InvalidRequest, match="payload: has 13 bytes"):
        await desk.edit(job_id, payload="01234567890")
    await desk.edit(job_id, payload="ok")
    assert await desk.stored() == 1


async def test_payload_bytes_come_at_their_rate() -> None:
    desk = QuotaDesk()
    await desk.limit(payload_bytes_per_second=100)
    assert await desk.batch({"payload": "x" * 58}, {"payload": "x" * 38}, {"payload": "xx"}) == [
        "made",
        "made",
        "payload_bytes_per_second",
    ]
    error = await refusal(desk, payload="x" * 48)
    assert (error.retry_after_s, error.allowed) == (1, 100)
    await desk.clock.advance(500)
    assert await desk.batch({"payload": "x" * 48}, {"payload": 1}, {}) == [
        "made",
        "payload_bytes_per_second",
        "made",  # it has no payload
    ]


async def test_no_more_runs_are_due_in_one_second_than_may_be() -> None:
    desk = QuotaDesk()
    await desk.limit(due_per_second=2)
    at_ms = desk.now() // 1_000 * 1_000 + 600_000
    same = {"schedule_type": "ONE_OFF", "execute_at": format_instant(at_ms), "delay_seconds": None}
    late = same | {"execute_at": format_instant(at_ms + 999)}
    next_one = same | {"execute_at": format_instant(at_ms + 1_000)}
    assert await desk.batch(same, late, same, next_one) == ["made", "made", "due_per_second", "made"]
    error = await refusal(desk, **late)
    assert "spread them" in str(error)
    assert (error.limit, error.allowed, error.retry_after_s) == ("due_per_second", 2, 60)
    at_once = {"schedule_type": "INSTANT", "delay_seconds": None}
    assert await desk.batch(at_once, at_once, at_once) == ["made", "made", "due_per_second"]
    assert (await refusal(desk, **at_once)).retry_after_s == 1
    await desk.clock.advance(1_000)
    assert await desk.batch(at_once) == ["made"]


def test_seconds_ahead_are_counted_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = DueCounts()
    assert DUE_PAIRS == 200_000
    monkeypatch.setattr("tickwheel.services.quota_counts.DUE_PAIRS", 100)
    for second in range(100):
        assert counts.take("a", second, 1, 0)
        assert not counts.take("a", second, 1, 0)
    assert counts.take("b", 5, 1, 0)  # one too many to be counted
    assert counts.take("b", 5, 1, 0)
    assert len(counts) == 100
    assert counts.take("b", 60, 1, 50)  # 50 seconds are over
    assert not counts.take("b", 60, 1, 50)
    assert len(counts) == 51
    counts.give_back("b", 60)
    assert counts.take("b", 60, 1, 50)
    assert not counts.take("b", 60, 1, 50)
    assert len(counts) == 51


async def test_requests_come_at_their_rate() -> None:
    desk = QuotaDesk()
    await desk.limit(requests_per_second=10, requests_burst=3)
    assert desk.requests(5) == 3
    assert desk.requests(5, "other") == 5
    with pytest.raises(QuotaExceeded, match="10 requests per second; send it again in 100 ms") as caught:
        desk.quotas.check_request(TENANT)
    assert caught.value.retry_after_s == 1
    await desk.clock.advance(1_000)
    assert desk.requests(5) == 3
    usage = await desk.quotas.usage(TENANT)
    assert usage.refused == {"requests_per_second": 5}
    assert (usage.requests_last_second, usage.requests_last_minute) == (11, 11)
    await desk.clock.advance(2_000)
    usage = await desk.quotas.usage(TENANT)
    assert (usage.requests_last_second, usage.requests_last_minute) == (0, 11)


async def test_two_nodes_share_a_rate() -> None:
    desk = QuotaDesk()
    await desk.limit(requests_per_second=100)
    desk.api_nodes = 2
    tenants, other = desk.node()
    await tenants.refresh()
    counts = [0, 0]
    for _ in range(10_000 // 5):
        for number, quotas in enumerate((desk.quotas, other)):
            try:
                quotas.check_request(TENANT)
                counts[number] += 1
            except QuotaExceeded:
                pass
        await desk.clock.advance(5)
    assert counts == [549, 549]  # half of the burst, and 50 in each of ten seconds
    desk.api_nodes = 1
    await desk.clock.advance(2_000)
    assert desk.requests(1) == 1
    await desk.clock.advance(2_000)
    assert desk.requests(200) == 100


async def test_a_rate_that_is_not_changed_is_not_given_anew() -> None:
    desk = QuotaDesk()
    await desk.limit(requests_per_second=5)
    assert desk.requests(9) == 5
    await desk.limit("other", requests_per_second=50)
    await desk.limit(requests_per_second=5, max_jobs=7)
    assert desk.requests(9) == 0
    await desk.limit(requests_per_second=6)
    assert desk.requests(9) == 6


async def test_defaults_bound_each_tenant_for_itself() -> None:
    desk = QuotaDesk()
    await desk.limit(DEFAULTS, requests_per_second=2, max_jobs=1)
    assert [desk.requests(5, name) for name in ("a", "b")] == [2, 2]
    assert await desk.batch({"tenant_id": "a"}, {"tenant_id": "a"}, {"tenant_id": "b"}) == [
        "made",
        "max_jobs",
        "made",
    ]
    await desk.limit("a", max_jobs=3)
    await desk.clock.advance(500)
    assert await desk.batch(*[{"tenant_id": "a"}] * 3) == ["made", "made", "max_jobs"]


async def test_whoever_is_disabled_may_do_nothing_until_enabled() -> None:
    desk = QuotaDesk()
    await desk.limit(disabled=True)
    with pytest.raises(TenantDisabled, match="'default' is disabled"):
        desk.quotas.check_request(TENANT)
    assert await desk.batch({}, {"tenant_id": "other"}) == ["tenant_disabled", "made"]
    await desk.limit()
    desk.quotas.check_request(TENANT)
    assert await desk.batch({}) == ["made"]
    assert (await desk.quotas.usage(TENANT)).refused == {"disabled": 2}


async def test_without_any_limit_nothing_is_asked_of_the_store() -> None:
    desk = QuotaDesk()

    async def never(tenant_id: str, at_most: int) -> int:
        raise AssertionError("nobody has a limit")

    desk.memory.count_jobs = never  # type: ignore[method-assign]
    await desk.limit(requests_per_second=5)
    assert not desk.quotas.bounds_jobs
    assert await desk.batch({}, {}) == ["made", "made"]


async def test_usage_says_how_many_jobs_there_are() -> None:
    desk = QuotaDesk()
    await desk.batch(*[{}] * 7)
    usage = await desk.quotas.usage(TENANT)
    assert (usage.jobs, usage.jobs_at_least, usage.refused) == (7, False, {})
    assert (await desk.quotas.usage("nobody")).jobs == 0


async def test_a_batch_takes_together_what_its_jobs_would_take_one_by_one() -> None:
    """The same batches, once whole and once job by job: what is made, and what is left, is the same."""
    limits: dict[str, Any] = {"max_jobs": 25, "due_per_second": 6, "payload_bytes_per_second": 300}
    whole, single = QuotaDesk(), QuotaDesk()
    for desk in (whole, single):
        await desk.limit(**limits)
    for size, delay in ((3, 60), (2, 60), (4, 61), (8, 62), (5, 63), (9, 64)):
        items = [{"delay_seconds": delay, "payload": {"x": "y" * 10}} for _ in range(size)]
        together = await whole.batch(*items)
        alone = [word_ for item in items for word_ in await single.batch(item)]
        assert together == alone
        for desk in (whole, single):
            await desk.clock.advance(300)
    usages = [await desk.quotas.usage(TENANT) for desk in (whole, single)]
    assert usages[0].jobs == usages[1].jobs
    assert usages[0].payload_bytes_spent == usages[1].payload_bytes_spent


async def test_what_a_whole_batch_held_is_free_again_where_nothing_was_made() -> None:
    desk = QuotaDesk()
    await desk.limit(max_jobs=10, due_per_second=4, payload_bytes_per_second=1_000)
    keys = [{"idempotency_key": f"k{n}", "payload": {"x": "y" * 50}} for n in range(4)]
    assert await desk.batch(*keys) == ["made"] * 4
    spent = (await desk.quotas.usage(TENANT)).payload_bytes_spent
    await desk.clock.advance(1_000)  # the bucket is full again, and the jobs are due in the second after
    for _ in range(5):
        assert await desk.batch(*keys) == ["replayed"] * 4
    assert spent > 200
    assert (await desk.quotas.usage(TENANT)).payload_bytes_spent == 0
    assert await desk.batch(*({} for _ in range(4))) == ["made"] * 4
