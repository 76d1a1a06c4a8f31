"""Records: versions, what caches are told, and their entries in the audit log."""

import pytest

from tickwheel.domain.errors import Conflict, NotFound, VersionMismatch
from tickwheel.ports.registry import API_KEY, SIGNING_SECRET, TENANT, Act, Record

from .desk import ACT, Desk, gathered, told


async def test_a_record_comes_back_as_it_was_put(desk: Desk) -> None:
    stored = await desk.put("x", '{"ä": 1}', version=0, used_ms=5)
    assert stored == Record(API_KEY, "a", "x", '{"ä": 1}', version=1, updated_ms=desk.now_ms, used_ms=5)
    assert list(await desk.store.records(API_KEY)) == [stored]
    await desk.arena.restart()
    assert list(await desk.store.records(API_KEY)) == [stored]


async def test_each_put_raises_the_version(desk: Desk) -> None:
    await desk.put("x", version=0)
    desk.clock.step_ms(10)
    assert (await desk.put("x", version=1)).version == 2
    stored = await desk.put("x", "[]", version=None)
    assert (stored.version, stored.updated_ms, stored.body) == (3, desk.now_ms, "[]")
    assert list(await desk.store.records(API_KEY)) == [stored]
    assert (await desk.put("y", version=None)).version == 1, "there need not be one"


async def test_a_put_at_a_wrong_version_changes_nothing(desk: Desk) -> None:
    with pytest.raises(NotFound, match="no api key 'x'"):
        await desk.put("x", version=1)
    kept = await desk.put("x", "1", version=0)
    changes, entries = await desk.store.records_version(), await desk.entries()
    with pytest.raises(Conflict, match="already"):
        await desk.put("x", "2", version=0)
    with pytest.raises(VersionMismatch, match="at version 1, not 2"):
        await desk.put("x", "2", version=2)
    assert list(await desk.store.records(API_KEY)) == [kept]
    assert await desk.store.records_version() == changes
    assert await desk.entries() == entries


async def test_of_two_puts_at_one_version_one_is_refused(desk: Desk) -> None:
    created = await gathered(*(desk.put("x", str(n), version=0) for n in range(8)))
    assert sorted(type(answer).__name__ for answer in created) == ["Conflict"] * 7 + ["Record"]
    replaced = await gathered(*(desk.put("x", str(n), version=1) for n in range(8)))
    [won] = [answer for answer in replaced if isinstance(answer, Record)]
    assert sum(isinstance(answer, VersionMismatch) for answer in replaced) == 7
    assert list(await desk.store.records(API_KEY)) == [won]
    assert told((await desk.entries())[0].after) == int(won.body)
    assert len(await desk.entries()) == 2


async def test_puts_at_once_all_count(desk: Desk) -> None:
    before = await desk.store.records_version()
    answers = await gathered(*(desk.put(f"k{n % 3}", version=None) for n in range(12)))
    assert sorted(answer.version for answer in answers) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert await desk.store.records_version() == before + 12


async def test_records_are_listed_by_kind_tenant_and_name(desk: Desk) -> None:
    for kind in (TENANT, API_KEY):
        for tenant_id in ("b", "", "ä", "B"):
            for name in ("z", "", "Y"):
                await desk.put(name, kind=kind, tenant_id=tenant_id)
    found = [(one.tenant_id, one.name) for one in await desk.store.records(TENANT)]
    assert found == sorted(found)
    assert len(found) == 12
    assert await desk.store.records(SIGNING_SECRET) == []


async def test_every_change_of_a_record_raises_the_version_of_all(desk: Desk) -> None:
    seen = [await desk.store.records_version()]
    await desk.put("x")
    seen.append(await desk.store.records_version())
    await desk.put("x", kind=TENANT)
    seen.append(await desk.store.records_version())
    await desk.put("x", "[]", version=1)
    seen.append(await desk.store.records_version())
    assert await desk.store.delete_record(API_KEY, "a", "x", ACT)
    seen.append(await desk.store.records_version())
    assert seen == sorted(set(seen))
    assert not await desk.store.delete_record(API_KEY, "a", "x", ACT)
    assert await desk.store.records_version() == seen[-1], "nothing was changed"
    await desk.arena.restart()
    assert await desk.store.records_version() == seen[-1]


async def test_a_deleted_record_is_gone_and_may_come_back(desk: Desk) -> None:
    await desk.put("x")
    await desk.put("x")
    assert await desk.store.delete_record(API_KEY, "a", "x", ACT)
    assert list(await desk.store.records(API_KEY)) == []
    assert (await desk.put("x", version=0)).version == 1
    assert not await desk.store.delete_record(API_KEY, "b", "x", ACT)
    assert not await desk.store.delete_record(TENANT, "a", "x", ACT)


async def test_a_touch_notes_the_latest_use_and_raises_no_version(desk: Desk) -> None:
    for tenant_id, name in (("a", "x"), ("b", "y"), ("b", "z")):
        await desk.put(name, tenant_id=tenant_id)
    await desk.put("x", kind=TENANT)
    version, entries = await desk.store.records_version(), await desk.entries()
    await desk.store.touch_records(API_KEY, {"x": 50, "y": 60, "nobody": 70})
    await desk.store.touch_records(API_KEY, {"x": 40, "y": 61})
    await desk.store.touch_records(API_KEY, {})
    found = {one.name: (one.used_ms, one.version) for one in await desk.store.records(API_KEY)}
    assert found == {"x": (50, 1), "y": (61, 1), "z": (0, 1)}
    assert [one.used_ms for one in await desk.store.records(TENANT)] == [0]
    assert await desk.store.records_version() == version
    assert await desk.entries() == entries
    assert (await desk.put("x")).used_ms == 50, "a put forgets no use"


async def test_changes_of_records_are_in_the_audit_log(desk: Desk) -> None:
    created, rotated, revoked = (Act("key:bob", f"token.{verb}", "::1") for verb in ("create", "rotate", "revoke"))
    record = Record(API_KEY, "a", "x", '{"hash": "deadbeef"}')
    await desk.store.put_record(record, created, expected_version=0, shown='{"role": "reader"}')
    await desk.store.put_record(record, rotated, expected_version=1, shown='{"role": "admin"}')
    desk.clock.step_ms(5)
    await desk.store.delete_record(API_KEY, "a", "x", revoked)
    gone, changed, made = await desk.entries("a")
    assert [one.action for one in (made, changed, gone)] == ["token.create", "token.rotate", "token.revoke"]
    assert (made.before, made.after) == (None, '{"role": "reader"}')
    assert (changed.before, changed.after) == ('{"role": "reader"}', '{"role": "admin"}')
    assert (gone.before, gone.after) == ('{"role": "admin"}', None)
    assert {(one.actor, one.source, one.subject) for one in (made, changed, gone)} == {
        ("key:bob", "::1", "api_key:x")
    }
    assert (made.at_ms, gone.at_ms) == (desk.now_ms - 5, desk.now_ms)
    assert made.number < changed.number < gone.number
