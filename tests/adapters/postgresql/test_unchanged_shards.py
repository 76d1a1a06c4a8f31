"""Claims that look at no job: what a change in the shard, before, meanwhile or after, does to them (E1)."""

import asyncio

import numpy as np
import psycopg
import pytest
from msgspec.structs import replace

from tickwheel.adapters.postgresql.records import home_of, uuid_of
from tickwheel.adapters.postgresql.views import SQL as VIEWS
from tickwheel.domain.columns import CLAIM, ClaimVerdict, Rows
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.store import Change, JobDecision, JobView, NewJob
from tickwheel.services.plans import note_unchanged

from ...conformance.store.arena import Arena, rows_of
from ...conformance.store.decisions import pause, raise_version
from ...conformance.store.owner import LEASE_MS, Owner

SHARD = 3


async def loaded(arena: Arena, owner: Owner, *jobs: NewJob) -> Rows:
    """CLAIM rows with what is known of the jobs now."""
    rows = rows_of(CLAIM, *(owner.claim_row(job, fence=owner.token(job.job.job_id)) for job in jobs))
    note_unchanged(rows, await arena.store.load_work(rows["job_id"].tolist()))
    return rows


async def claimed(arena: Arena, rows: Rows) -> Rows:
    return await arena.store.claim(rows, arena.now_ms, arena.now_ms + LEASE_MS)


async def verdicts(arena: Arena, rows: Rows) -> list[ClaimVerdict]:
    return [ClaimVerdict(verdict) for verdict in (await claimed(arena, rows))["verdict"].tolist()]


async def change(arena: Arena, new: NewJob, decide: JobDecision) -> None:
    assert await arena.store.change_job(new.job.tenant_id, new.job.job_id, decide) is not None


def edit(view: JobView, now_ms: int) -> Change:
    """Another payload; the timer stays."""
    return Change(job=replace(raise_version(view.job, now_ms), payload='"edited"'))


async def test_a_pause_after_the_look_keeps_the_claim_from_winning(arena: Arena) -> None:
    owner, job = await Owner(arena).acquire(), arena.one_off(shard=SHARD)
    await arena.insert(job)
    rows = await loaded(arena, owner, job)
    assert rows["changes"].tolist() == [1]
    await change(arena, job, pause)
    assert await verdicts(arena, rows) == [ClaimVerdict.RESOLVED]


async def test_an_edit_after_the_look_is_told_with_the_claim(arena: Arena) -> None:
    owner, job = await Owner(arena).acquire(), arena.one_off(shard=SHARD)
    await arena.insert(job)
    rows = await loaded(arena, owner, job)
    await change(arena, job, edit)
    answers = await claimed(arena, rows)
    assert answers["verdict"].tolist() == [ClaimVerdict.WON]
    assert answers["version"].tolist() == [2], "so the definition is read again"


async def test_jobs_beside_a_changed_one_are_claimed_all_the_same(arena: Arena) -> None:
    owner = await Owner(arena).acquire()
    changed, beside, elsewhere = arena.one_off(shard=SHARD), arena.one_off(shard=SHARD), arena.one_off(shard=9)
    await arena.insert(changed, beside, elsewhere)
    rows = await loaded(arena, owner, changed, beside, elsewhere)
    await change(arena, changed, pause)
    assert await verdicts(arena, rows) == [ClaimVerdict.RESOLVED, ClaimVerdict.WON, ClaimVerdict.WON]


async def test_a_claim_does_not_wait_for_changes_of_other_jobs_of_its_shard(arena: Arena, url: str) -> None:
    owner, mine, other = await Owner(arena).acquire(), arena.one_off(shard=SHARD), arena.one_off(shard=SHARD)
    await arena.insert(mine, other)
    rows = await loaded(arena, owner, mine)
    with psycopg.connect(url) as stuck:
        stuck.execute("UPDATE tickwheel.shard_changes SET changes = changes + 1 WHERE shard = %s", (SHARD,))
        assert await asyncio.wait_for(verdicts(arena, rows), 5) == [ClaimVerdict.WON]
        stuck.rollback()


async def test_a_claim_waits_for_the_change_of_its_own_job(arena: Arena, url: str) -> None:
    """The change has counted and has not committed: the claim sees the old count, and must not win by it."""
    owner, job = await Owner(arena).acquire(), arena.one_off(shard=SHARD)
    await arena.insert(job)
    rows = await loaded(arena, owner, job)
    key = {"shard": SHARD, "home": home_of(job.job.job_id), "job_id": uuid_of(job.job.job_id)}
    with psycopg.connect(url) as changing:
        changing.execute(VIEWS["lock_job"], {**key, "tenant_id": job.job.tenant_id})
        claim = asyncio.create_task(claimed(arena, rows))
        await asyncio.sleep(0.2)
        assert not claim.done()
        changing.execute("UPDATE tickwheel.jobs SET version = 2 WHERE job_id = %(job_id)s", key)
    assert (await claim)["version"].tolist() == [2]


async def test_a_claim_without_a_known_count_looks_at_the_job(arena: Arena) -> None:
    owner, job = await Owner(arena).acquire(), arena.one_off(shard=SHARD)
    await arena.insert(job)
    rows = await loaded(arena, owner, job)
    rows["changes"] = 0
    await change(arena, job, pause)
    assert await verdicts(arena, rows) == [ClaimVerdict.RESOLVED]


async def test_what_was_armed_and_its_lane_are_stored_as_by_a_look(arena: Arena) -> None:
    owner = await Owner(arena).acquire()
    jobs = [arena.one_off(shard=SHARD), arena.one_off(shard=SHARD)]
    await arena.insert(*jobs)
    seen = await loaded(arena, owner, *jobs)
    seen["changes"][1] = 0
    assert await verdicts(arena, seen) == [ClaimVerdict.WON] * 2
    first, second = [await arena.run(job) for job in jobs]
    assert (first.armed_ms, first.lane) == (second.armed_ms, second.lane)
    assert first.armed_ms is not None


def pause_if_not_begun(view: JobView, now_ms: int) -> Change:
    return pause(view, now_ms) if view.live is not None else Change()


@pytest.mark.parametrize("seed", range(4))
async def test_a_job_is_either_claimed_or_paused(arena: Arena, seed: int) -> None:
    """Claims and pauses of the same jobs race, over three connections: nothing starts that was paused before."""
    owner, randomness = await Owner(arena).acquire(), np.random.default_rng(seed)
    jobs = [arena.one_off(shard=number % 5) for number in range(60)]
    await arena.insert(*jobs)
    order = randomness.permutation(len(jobs)).tolist()

    async def pause_some(numbers: list[int]) -> None:
        for number in numbers:
            await change(arena, jobs[number], pause_if_not_begun)

    async def claim_all() -> dict[bytes, bool]:
        won: dict[bytes, bool] = {}
        for start in range(0, len(jobs), 10):
            rows = await loaded(arena, owner, *jobs[start : start + 10])
            await asyncio.sleep(float(randomness.random()) * 0.01)
            answers = await verdicts(arena, rows)
            won.update(zip(rows["job_id"].tolist(), (v is ClaimVerdict.WON for v in answers), strict=True))
        return won

    won, _, _ = await asyncio.gather(claim_all(), pause_some(order[:30]), pause_some(order[30:]))
    for job in jobs:
        paused = (await arena.view(job)).job.state is JobState.PAUSED
        assert paused is not won[job.job.job_id]
        state = (await arena.run(job)).state
        assert state is (RunState.PAUSED if paused else RunState.DISPATCHED)
