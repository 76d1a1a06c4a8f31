"""Delays: what was noted is found by kind, subject and time, and goes when it is old."""

from typing import cast

from msgspec.structs import replace

from tickwheel.domain.delays import Delay, DelayKind, shards_text
from tickwheel.ports.explaining import DELAYS_FOUND, ExplainingStore
from tickwheel.ports.store import FirstTimer

from .arena import Arena
from .owner import Owner

HELD = Delay(DelayKind.TARGET, "a.example", "node-1", 1_000, 2_000, "failing")
TAKEN = Delay(DelayKind.TAKEOVER, "node-2", "node-1", 5_000, 7_000, "proved", shards_text(range(3)))
LIMITED = Delay(DelayKind.LIMIT, "key\ndefault\nä'\u2028", "node-1", 1_500, 9_000)
ANY = (DelayKind.TAKEOVER, None)


def store_of(arena: Arena) -> ExplainingStore:
    return cast(ExplainingStore, arena.store)


async def test_delay_is_found_by_kind_and_subject(arena: Arena) -> None:
    store = store_of(arena)
    await store.note_delays([HELD, TAKEN, LIMITED])
    assert list(await store.find_delays([(DelayKind.TARGET, "a.example")], 0, 10_000)) == [HELD]
    assert list(await store.find_delays([(DelayKind.TARGET, "b.example"), ANY], 0, 10_000)) == [TAKEN]
    assert list(await store.find_delays([(LIMITED.kind, LIMITED.subject)], 0, 10_000)) == [LIMITED]
    assert list(await store.find_delays([(DelayKind.WORKER, "a.example")], 0, 10_000)) == []
    assert list(await store.find_delays([], 0, 10_000)) == []


async def test_delay_is_found_only_where_it_lies_over_the_time(arena: Arena) -> None:
    store = store_of(arena)
    await store.note_delays([HELD])
    wanted = [(DelayKind.TARGET, "a.example")]
    assert list(await store.find_delays(wanted, 1_999, 3_000)) == [HELD]
    assert list(await store.find_delays(wanted, 500, 1_001)) == [HELD]
    assert list(await store.find_delays(wanted, 2_000, 3_000)) == []
    assert list(await store.find_delays(wanted, 500, 1_000)) == []


async def test_delay_that_goes_on_is_replaced(arena: Arena) -> None:
    store = store_of(arena)
    longer = replace(HELD, until_ms=8_000, detail="retry_after")
    elsewhere = replace(HELD, node="node-2")
    await store.note_delays([HELD, elsewhere])
    await store.note_delays([replace(HELD, until_ms=4_000), longer])
    found = await store.find_delays([(DelayKind.TARGET, None)], 0, 10_000)
    assert sorted(found, key=lambda delay: delay.node) == [longer, elsewhere]


async def test_latest_delays_are_found_oldest_first(arena: Arena) -> None:
    store = store_of(arena)
    many = [replace(HELD, from_ms=n, until_ms=n + 1) for n in range(DELAYS_FOUND + 20)]
    await store.note_delays(many)
    assert list(await store.find_delays([(DelayKind.TARGET, "a.example")], 0, 10_000)) == many[20:]


async def test_runs_before_a_run_are_found(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    assert new.timer is not None
    first_ms = new.timer.scheduled_ms
    second_ms = first_ms + 1_000
    await owner.win(new, next_ms=second_ms)
    arena.clock.step_ms(2_000)
    await owner.win(new, FirstTimer(second_ms, second_ms, 1))
    job_id, tenant_id, find = new.job.job_id, new.job.tenant_id, store_of(arena).runs_before
    latest_first = [run.scheduled_ms for run in await find(tenant_id, job_id, second_ms + 1, 5)]
    assert latest_first == [second_ms, first_ms]
    assert [run.scheduled_ms for run in await find(tenant_id, job_id, second_ms + 1, 1)] == [second_ms]
    assert [run.scheduled_ms for run in await find(tenant_id, job_id, second_ms, 5)] == [first_ms]
    assert list(await find(tenant_id, job_id, first_ms, 5)) == []
    assert list(await find("other", job_id, second_ms, 5)) == []


async def test_old_delays_are_trimmed(arena: Arena) -> None:
    store = store_of(arena)
    await store.note_delays([HELD, TAKEN, LIMITED])
    assert await store.trim_delays(7_001, 1) == 1
    assert await store.trim_delays(7_001, 5) == 1
    assert await store.trim_delays(7_001, 5) == 0
    wanted = [(DelayKind.TARGET, None), ANY, (DelayKind.LIMIT, None)]
    assert list(await store.find_delays(wanted, 0, 10_000)) == [LIMITED]
