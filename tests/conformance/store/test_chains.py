import pytest
from msgspec.structs import replace

from tickwheel.domain.job import JobState
from tickwheel.ports.store import BrokenChain, Change, FirstTimer, JobView, NewJob

from .arena import Arena
from .decisions import pause
from .owner import Owner

PERIOD_MS = 60_000


async def broken(arena: Arena) -> list[tuple[bytes, int]]:
    page = await arena.store.broken_chains(b"", 100)
    assert page.after is None
    return [(chain.job_id, chain.live_count) for chain in page.broken]


async def change(arena: Arena, new: NewJob, **fields: object) -> None:
    def decide(view: JobView, now_ms: int) -> Change:
        return Change(**fields)  # type: ignore[arg-type]  # passed through

    assert await arena.store.change_job("default", new.job.job_id, decide) is not None


async def test_a_chain_is_whole_before_during_and_after_each_run(arena: Arena, owner: Owner) -> None:
    new, once = arena.recurring(), arena.one_off()
    await arena.insert(new, once)
    assert await broken(arena) == []
    held = await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    assert await broken(arena) == []
    await owner.retry_later(held, 10 * PERIOD_MS)
    assert await broken(arena) == []


async def test_a_job_without_a_next_timer_is_found(arena: Arena) -> None:
    new = arena.recurring()
    await arena.insert(new, arena.recurring())
    await change(arena, new, drop_live=True)
    assert await broken(arena) == [(new.job.job_id, 0)]


async def test_a_timer_at_an_instant_that_is_taken_does_not_count(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await owner.win(new, next_ms=arena.now_ms)
    assert await broken(arena) == [(new.job.job_id, 0)]


async def test_a_job_with_two_next_timers_is_found(arena: Arena) -> None:
    new = arena.recurring()
    await arena.insert(new)
    at_ms = arena.now_ms + PERIOD_MS
    await change(arena, new, timer=FirstTimer(at_ms, at_ms, 1))
    assert await broken(arena) == [(new.job.job_id, 2)]


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.COMPLETED, JobState.DELETED])
async def test_what_is_not_active_needs_no_timer(arena: Arena, state: JobState) -> None:
    new, paused = arena.recurring(), arena.recurring()
    await arena.insert(new, paused)
    await change(arena, new, job=replace(new.job, state=state), drop_live=True)
    await arena.store.change_job("default", paused.job.job_id, pause)
    assert await broken(arena) == []


async def test_pieces_go_over_every_job_once(arena: Arena) -> None:
    jobs = [arena.recurring(tenant_id=f"tenant-{n % 2}") for n in range(7)]
    await arena.insert(*(replace(new, timer=None) for new in jobs), arena.one_off())
    found: list[BrokenChain] = []
    after: bytes | None = b""
    while after is not None:
        page = await arena.store.broken_chains(after, 3)
        found += page.broken
        after = page.after
    expected = sorted((new.job.tenant_id, new.job.job_id) for new in jobs)
    assert sorted((chain.tenant_id, chain.job_id) for chain in found) == expected
