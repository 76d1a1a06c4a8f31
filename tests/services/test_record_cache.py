"""Records in memory: as fresh as they were said to be, and as cheap."""

import asyncio
from collections.abc import Sequence

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.registry import Act, Record
from tickwheel.services.record_cache import REFRESH_MS, RecordCache
from tickwheel.testing.virtual_clock import VirtualClock

from .memory_registry import MemoryRegistry

ACT = Act("somebody", "thing.change")


def number_of(record: Record) -> int:
    return int(record.body)


class Desk:
    """A registry and a cache of one kind."""

    def __init__(self) -> None:
        self.registry, self.clock = MemoryRegistry(), VirtualClock(auto_jump=True)
        self.cache = RecordCache(self.registry, "thing", number_of, self.clock)

    async def put(self, name: str, body: str, *, tenant_id: str = "acme", kind: str = "thing") -> None:
        record = Record(kind, tenant_id, name, body)
        await self.registry.put_record(record, ACT, expected_version=None, shown="{}")


async def test_records_are_known_by_tenant_and_name() -> None:
    desk = Desk()
    await desk.put("a", "1")
    await desk.put("a", "2", tenant_id="other")
    await desk.put("b", "3", kind="something else")
    before = desk.cache.loaded
    await desk.cache.refresh()
    assert (before, desk.cache.loaded) == (False, True)
    assert desk.cache.get("acme", "a") == 1
    assert desk.cache.get("acme", "b") is None
    assert dict(desk.cache.all()) == {("acme", "a"): 1, ("other", "a"): 2}


async def test_nothing_is_read_while_nothing_changes() -> None:
    desk = Desk()
    for _ in range(3):
        await desk.cache.refresh()
    assert desk.registry.reads == 1
    await desk.put("a", "1")
    await desk.cache.refresh()
    await desk.cache.refresh()
    assert (desk.registry.reads, desk.cache.get("acme", "a")) == (2, 1)


async def test_own_writes_are_read_at_once_even_if_the_version_stands_still() -> None:
    desk = Desk()
    await desk.cache.refresh()
    desk.cache.now_stale()
    await desk.cache.refresh()
    assert desk.registry.reads == 2


async def test_what_was_known_stays_without_the_store() -> None:
    desk = Desk()
    await desk.put("a", "1")
    await desk.cache.refresh()
    desk.cache.now_stale()
    desk.registry.away = True
    with pytest.raises(StoreUnavailable):
        await desk.cache.refresh()
    assert desk.cache.get("acme", "a") == 1
    desk.registry.away = False
    await desk.cache.refresh()
    assert desk.registry.reads == 2


async def test_one_unreadable_record_keeps_what_it_said_and_holds_up_no_other() -> None:
    desk = Desk()
    await desk.put("a", "1")
    await desk.cache.refresh()
    await desk.put("a", "not a number")
    await desk.put("b", "neither")
    await desk.put("c", "3")
    await desk.cache.refresh()
    assert dict(desk.cache.all()) == {("acme", "a"): 1, ("acme", "c"): 3}
    assert list(desk.cache.unreadable) == [("acme", "a"), ("acme", "b")]


async def test_a_change_while_the_records_are_read_is_met_by_the_next_refresh() -> None:
    desk = Desk()
    await desk.put("a", "1")
    read = desk.registry.records

    async def records(kind: str) -> Sequence[Record]:
        answer = await read(kind)
        await desk.put("a", "2")
        return answer

    desk.registry.records = records  # type: ignore[method-assign] # a write in between
    await desk.cache.refresh()
    assert desk.cache.get("acme", "a") == 1
    desk.registry.records = read  # type: ignore[method-assign] # as it was
    await desk.cache.refresh()
    assert desk.cache.get("acme", "a") == 2


async def test_the_loop_meets_changes_of_others_within_a_second() -> None:
    desk = Desk()
    loop = asyncio.ensure_future(desk.cache.run())
    await desk.clock.sleep_ms(10)
    await desk.put("a", "1")
    assert desk.cache.get("acme", "a") is None
    await desk.clock.sleep_ms(REFRESH_MS)
    assert desk.cache.get("acme", "a") == 1
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
