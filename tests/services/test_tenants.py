"""Records of tenants: what holds for whom, how soon it is known elsewhere, and what can't be read."""

import asyncio

import pytest

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import NotFound, StoreUnavailable, VersionMismatch
from tickwheel.domain.quotas import NOTHING_SET, TenantLimits, TenantSettings
from tickwheel.ports.registry import NO_TENANT, TENANT, Act, Record
from tickwheel.services.record_cache import REFRESH_MS
from tickwheel.services.tenants import DEFAULTS, Tenants
from tickwheel.testing.virtual_clock import VirtualClock

from .memory_registry import MemoryRegistry

ACT = Act("somebody", "tenant.change")


def limits(**fields: int) -> TenantSettings:
    return TenantSettings(TenantLimits(**fields))


class Desk:
    """Two nodes over one registry."""

    def __init__(self) -> None:
        self.registry, self.clock = MemoryRegistry(), VirtualClock()
        self.here, self.there = (Tenants(self.registry, self.clock) for _ in range(2))


async def test_a_tenant_has_its_own_limits_over_the_defaults() -> None:
    tenants = Desk().here
    assert tenants.of("acme") is NOTHING_SET
    await tenants.put("acme", limits(max_jobs=5), ACT)
    await tenants.put(DEFAULTS, limits(max_jobs=100, due_per_second=9), ACT)
    assert tenants.of("acme").limits == TenantLimits(max_jobs=5, due_per_second=9)
    assert tenants.of("other").limits == TenantLimits(max_jobs=100, due_per_second=9)
    assert tenants.of("other") is tenants.defaults
    assert set(tenants.known) == {"acme"}
    await tenants.delete("acme", ACT)
    assert tenants.of("acme").limits.max_jobs == 100


async def test_another_node_knows_a_change_within_about_a_second() -> None:
    desk = Desk()
    await desk.there.refresh()
    await desk.here.put("acme", TenantSettings(egress=EgressPolicy(allow=("a.example",)), disabled=True), ACT)
    assert desk.here.of("acme").disabled
    assert not desk.there.of("acme").disabled
    looking = asyncio.create_task(desk.there.run())
    await desk.clock.advance(REFRESH_MS)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert desk.there.of("acme").disabled
    assert desk.there.egress_of("acme") == EgressPolicy(allow=("a.example",))
    assert desk.there.egress_of("other") is None


async def test_listeners_hear_of_changes_and_of_nothing_else() -> None:
    tenants = Desk().here
    heard: list[int | None] = []
    tenants.when_changed(lambda: heard.append(tenants.of("acme").limits.max_jobs))
    await tenants.refresh()
    await tenants.put("acme", limits(max_jobs=1), ACT)
    await tenants.refresh()
    await tenants.put("acme", limits(max_jobs=2), ACT)
    assert heard == [None, None, 1, 2]


async def test_a_record_is_replaced_only_at_the_version_that_was_read() -> None:
    tenants = Desk().here
    with pytest.raises(NotFound):
        await tenants.put("acme", NOTHING_SET, ACT, expected_version=1)
    first = await tenants.put("acme", limits(max_jobs=1), ACT)
    assert await tenants.get("acme") == first
    second = await tenants.put("acme", NOTHING_SET, ACT, expected_version=first.version)
    assert second.version == first.version + 1
    assert second.settings == NOTHING_SET  # a put replaces, and keeps nothing
    with pytest.raises(VersionMismatch):
        await tenants.put("acme", limits(max_jobs=3), ACT, expected_version=first.version)
    assert await tenants.get("acme") == second


async def test_records_are_listed_with_the_defaults_first() -> None:
    tenants = Desk().here
    for tenant_id in ("b", DEFAULTS, "a"):
        await tenants.put(tenant_id, NOTHING_SET, ACT)
    assert [view.tenant_id for view in await tenants.list()] == ["", "a", "b"]
    with pytest.raises(NotFound, match="no record of the tenant 'c'"):
        await tenants.get("c")
    with pytest.raises(NotFound):
        await tenants.delete("c", ACT)


async def test_a_record_that_cannot_be_read_opens_nothing() -> None:
    desk = Desk()
    tenants = desk.here
    await tenants.put("known", limits(max_jobs=3), ACT)
    for tenant_id in ("known", "unknown"):
        odd = Record(TENANT, tenant_id, tenant_id, '{"limits": 7}')
        await desk.registry.put_record(odd, ACT, expected_version=None, shown="{}")
    await tenants.refresh()
    assert tenants.of("known") == limits(max_jobs=3)
    assert tenants.of("unknown").disabled


async def test_defaults_that_cannot_be_read_shut_those_without_a_record() -> None:
    desk = Desk()
    await desk.here.put("acme", limits(max_jobs=3), ACT)
    odd = Record(TENANT, NO_TENANT, "", '{"limits": 7}')
    await desk.registry.put_record(odd, ACT, expected_version=None, shown="{}")
    await desk.here.refresh()
    assert desk.here.of("whoever").disabled
    assert not desk.here.of("acme").disabled


async def test_what_was_known_holds_while_the_store_is_away() -> None:
    desk = Desk()
    await desk.here.put("acme", limits(max_jobs=3), ACT)
    desk.registry.away = True
    with pytest.raises(StoreUnavailable):
        await desk.here.refresh()
    assert desk.here.of("acme").limits.max_jobs == 3
