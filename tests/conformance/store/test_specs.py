"""The walk over stored specs: every job is met once, and a spec is replaced only as it was read."""

from typing import Protocol, cast

import pytest
from msgspec.structs import replace

from tickwheel.domain.job import Spec, Target, TargetType, decode_spec, encode_spec
from tickwheel.ports.registry import Act, AuditLogQuery, Registry
from tickwheel.ports.specs import SpecChange, SpecStore, StoredSpec
from tickwheel.ports.store import Change, JobView, NewJob, Store

from .arena import Arena
from .decisions import cancel, delete

PLAIN = Spec(target=Target(TargetType.HTTP_WEBHOOK, "https://a.example/x"))


class SpecsStore(Store, SpecStore, Registry, Protocol):
    """What every store is."""


def store_of(arena: Arena) -> SpecsStore:
    return cast(SpecsStore, arena.store)


def spec_with(value: str) -> Spec:
    return Spec(target=Target(TargetType.HTTP_WEBHOOK, "https://a.example/x", headers=(("X-Key", value),)))


def change_of(stored: StoredSpec, value: str) -> SpecChange:
    return SpecChange(stored.job_id, stored.spec, encode_spec(spec_with(value)).decode())


async def walk(arena: Arena, limit: int) -> tuple[list[StoredSpec], int]:
    """All that is met, in pieces of that length, and how many jobs were looked at."""
    found: list[StoredSpec] = []
    looked_at, after = 0, b""
    while True:
        piece = await store_of(arena).specs_with_headers(after, limit)
        found += piece.specs
        looked_at += piece.looked_at
        if piece.after is None:
            return found, looked_at
        after = piece.after


def spec_of(view: JobView) -> Spec:
    return view.job.spec


async def some_jobs(arena: Arena) -> list[NewJob]:
    """With headers; some one-offs on other days, some recurring, some of another tenant."""
    made = [arena.one_off(arena.now_ms + n * 86_400_000, spec=spec_with(f"v{n}")) for n in range(3)]
    made.append(arena.recurring(spec=spec_with("v3")))
    made.append(arena.one_off(spec=spec_with('v4 "\\ ü'), tenant_id="other"))
    return made


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_job_with_headers_is_met_once(arena: Arena, limit: int) -> None:
    made = await some_jobs(arena)
    await arena.insert(*made, arena.one_off(spec=PLAIN), arena.recurring(spec=PLAIN))
    found, looked_at = await walk(arena, limit)
    assert looked_at == len(made) + 2
    met = {(one.tenant_id, one.job_id, decode_spec(one.spec)) for one in found}
    assert met == {(new.job.tenant_id, new.job.job_id, new.job.spec) for new in made}
    assert len(found) == len(made)


async def test_an_empty_store_has_nothing_to_walk_over(arena: Arena) -> None:
    assert await walk(arena, 10) == ([], 0)
    assert await store_of(arena).replace_specs([]) == 0


async def test_jobs_that_are_over_or_deleted_are_met_too(arena: Arena) -> None:
    over, gone = arena.one_off(spec=spec_with("over")), arena.one_off(spec=spec_with("gone"))
    await arena.insert(over, gone)
    await arena.store.change_job("default", over.job.job_id, cancel)
    await arena.store.change_job("default", gone.job.job_id, delete)
    assert await arena.store.get_job("default", gone.job.job_id) is None
    found, _ = await walk(arena, 10)
    assert {one.job_id for one in found} == {over.job.job_id, gone.job.job_id}
    assert await store_of(arena).replace_specs([change_of(one, "new") for one in found]) == 2
    again, _ = await walk(arena, 10)
    assert {decode_spec(one.spec) for one in again} == {spec_with("new")}


async def test_replacing_is_no_change_of_the_job(arena: Arena) -> None:
    made = await some_jobs(arena)
    await arena.insert(*made)
    before = [await arena.view(new) for new in made]
    timers = await arena.timers()
    arena.clock.step_ms(1_000)
    found, _ = await walk(arena, 100)
    assert await store_of(arena).replace_specs([change_of(one, "new") for one in found]) == len(made)
    for view, new in zip(before, made, strict=True):
        after = await arena.view(new)
        assert spec_of(after) == spec_with("new")
        assert (after.job.version, after.job.updated_ms) == (view.job.version, view.job.updated_ms)
        assert after.live == view.live
    assert await arena.timers() == timers
    assert (await store_of(arena).audit_log(AuditLogQuery(None))).items == ()


async def test_what_was_edited_since_it_was_read_stays(arena: Arena) -> None:
    kept, edited = arena.one_off(spec=spec_with("a")), arena.one_off(spec=spec_with("a"))
    await arena.insert(kept, edited)
    found, _ = await walk(arena, 10)

    def edit(view: JobView, now_ms: int) -> Change:
        return Change(job=replace(view.job, spec=spec_with("edited"), version=view.job.version + 1))

    await arena.store.change_job("default", edited.job.job_id, edit, Act("a", "job.edit"))
    changes = [change_of(one, "new") for one in found]
    assert await store_of(arena).replace_specs(changes) == 1
    assert spec_of(await arena.view(edited)) == spec_with("edited")
    assert spec_of(await arena.view(kept)) == spec_with("new")
    assert await store_of(arena).replace_specs(changes) == 0
