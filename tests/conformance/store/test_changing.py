import asyncio

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.store import Change, FirstTimer, JobQuery, JobView, LedgerWrite, Run

from .arena import Arena
from .decisions import cancel, cancel_run, edit, move_one_off, nothing, pause, raise_version, resume
from .owner import Owner


async def test_a_job_that_does_not_exist_is_not_decided_on(arena: Arena) -> None:
    new = arena.one_off(tenant_id="a")
    await arena.insert(new)

    def never(view: JobView, now_ms: int) -> Change:
        raise AssertionError("asked about a job that the caller may not see")

    assert await arena.store.change_job("a", arena.one_off().job.job_id, never) is None
    assert await arena.store.change_job("b", new.job.job_id, never) is None


async def test_the_decision_sees_the_job_and_the_stores_clock(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await owner.win(new, next_ms=arena.now_ms + 60_000)
    arena.clock.step_ms(17)
    seen: list[tuple[JobView, int]] = []

    def look(view: JobView, now_ms: int) -> Change:
        seen.append((view, now_ms))
        return Change()

    await arena.store.change_job(new.job.tenant_id, new.job.job_id, look)
    assert seen == [(await arena.view(new), arena.now_ms)]


async def test_concurrent_changes_lose_no_update(arena: Arena) -> None:
    new = arena.recurring(payload="0")
    await arena.insert(new)

    def count_up(view: JobView, now_ms: int) -> Change:
        return Change(job=replace(view.job, payload=str(int(view.job.payload) + 1)))

    key = (new.job.tenant_id, new.job.job_id)
    await asyncio.gather(*(arena.store.change_job(*key, count_up) for _ in range(40)))
    assert (await arena.view(new)).job.payload == "40"


async def test_concurrent_edits_leave_one_live_timer(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 5)
    await arena.insert(new)
    key = (new.job.tenant_id, new.job.job_id)
    await asyncio.gather(*(arena.store.change_job(*key, edit(arena.now_ms + n)) for n in range(20)))
    [timer] = await arena.timers()
    view = await arena.view(new)
    assert (view.live, view.job.version, timer.gen) == (timer, 21, 21)


@pytest.mark.pitfall(91)
async def test_a_claim_and_a_cancel_at_once_end_cancelled(arena: Arena, owner: Owner) -> None:
    for _ in range(25):
        new = arena.recurring()
        await arena.insert(new)
        key = (new.job.tenant_id, new.job.job_id)
        held, _ = await asyncio.gather(
            owner.claim(new, next_ms=arena.now_ms + 1), arena.store.change_job(*key, cancel)
        )
        assert held.verdict in (ClaimVerdict.WON, ClaimVerdict.RESOLVED)
        assert not (await owner.complete(held, RunState.SUCCEEDED)).applied
        assert (await arena.view(new)).open_runs == ()
        assert await arena.timers(new) == []


@pytest.mark.pitfall(91)
async def test_a_completion_and_a_cancel_at_once_agree(arena: Arena, owner: Owner) -> None:
    for _ in range(25):
        new = arena.one_off()
        await arena.insert(new)
        held = await owner.win(new)
        key = (new.job.tenant_id, new.job.job_id)
        ended, _ = await asyncio.gather(
            owner.complete(held, RunState.SUCCEEDED), arena.store.change_job(*key, cancel)
        )
        run = await arena.run(new)
        assert run.state is (RunState.SUCCEEDED if ended.applied else RunState.CANCELLED)


@pytest.mark.pitfall(91)
async def test_a_cancelled_job_does_not_come_back(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 5)
    await arena.insert(new)
    key = (new.job.tenant_id, new.job.job_id)
    await arena.store.change_job(*key, cancel)

    def resume_if_paused(view: JobView, now_ms: int) -> Change:
        return resume(now_ms)(view, now_ms) if view.job.state is JobState.PAUSED else Change()

    changed = await arena.store.change_job(*key, resume_if_paused)
    assert changed is not None
    assert changed.view.job.state is JobState.CANCELLED
    assert await arena.timers() == []


async def test_a_definition_is_replaced_as_a_whole(arena: Arena) -> None:
    new = arena.one_off(arena.now_ms + 500)
    await arena.insert(new)
    edited = replace(
        new.job,
        name="other",
        payload="[]",
        tags=("x",),
        lane=0,
        version=2,
        updated_ms=arena.now_ms + 1,
        spec=replace(new.job.spec, deadline_ms=5),
    )
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, lambda view, now_ms: Change(job=edited))
    view = await arena.view(new)
    assert (view.job, view.live) == (edited, new.timer)


async def test_an_edit_of_a_running_one_off_keeps_the_timer_of_its_run(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)

    def rename(view: JobView, now_ms: int) -> Change:
        return Change(job=replace(raise_version(view.job, now_ms), name="renamed"), drop_live=True)

    await arena.store.change_job(new.job.tenant_id, new.job.job_id, rename)
    assert await arena.timers() == [new.timer], "the run in flight is not resolved"
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert await arena.timers() == []


async def test_a_one_off_moved_to_an_earlier_instant_shows_the_run_that_counts(arena: Arena, owner: Owner) -> None:
    new = arena.one_off(arena.now_ms + 5_000)
    await arena.insert(new)
    changed = await arena.store.change_job("default", new.job.job_id, move_one_off(arena.now_ms))
    assert changed is not None
    held = await owner.win(new, changed.timers[0])
    view = await arena.view(new)
    assert view.last_run is not None
    assert (view.last_run.state, view.last_run.fence) == (RunState.DISPATCHED, held.fence)
    for status, count in (("DISPATCHED", 1), ("SKIPPED", 0), ("SCHEDULED", 0)):
        page = await arena.store.list_jobs(JobQuery("default", status=status))
        assert len(page.items) == count, status


async def test_a_waiting_retry_is_paused_and_resumed_with_its_attempts(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    retry = await owner.retry_later(await owner.win(new))
    key = (new.job.tenant_id, new.job.job_id)
    scheduled_ms = retry.scheduled_ms

    def halt(view: JobView, now_ms: int) -> Change:
        return Change(runs=(LedgerWrite(scheduled_ms, RunState.PAUSED),))

    await arena.store.change_job(*key, halt)
    assert await arena.timers() == []
    assert (await owner.claim(new, retry)).verdict is ClaimVerdict.RESOLVED
    changed = await arena.store.change_job(*key, resume(arena.now_ms + 10))
    assert changed is not None
    [timer] = changed.timers
    assert timer == FirstTimer(arena.now_ms + 10, scheduled_ms, -2)
    arena.clock.step_ms(10)
    assert (await owner.win(new, timer)).attempt == 2


async def test_pausing_and_resuming_ten_times_leaves_one_timer(arena: Arena, owner: Owner) -> None:
    one, many = arena.one_off(arena.now_ms + 50), arena.recurring(arena.now_ms + 50)
    await arena.insert(one, many)
    for _ in range(10):
        for new in (one, many):
            await arena.store.change_job(new.job.tenant_id, new.job.job_id, resume_or_pause(arena.now_ms + 50))
            await arena.store.change_job(new.job.tenant_id, new.job.job_id, resume_or_pause(arena.now_ms + 50))
    assert [len(await arena.timers(new)) for new in (one, many)] == [1, 1]
    arena.clock.step_ms(50)
    for new in (one, many):
        [timer] = await arena.timers(new)
        assert (await owner.claim(new, timer, next_ms=arena.now_ms + 9)).won


def resume_or_pause(due_ms: int):  # type: ignore[no-untyped-def]  # a decision
    def decide(view: JobView, now_ms: int) -> Change:
        if view.job.state is JobState.PAUSED:
            return resume(due_ms)(view, now_ms)
        if view.live is None:
            waiting = view.open_runs[0]
            job = raise_version(view.job, now_ms, JobState.PAUSED)
            return Change(job=job, runs=(LedgerWrite(waiting.scheduled_ms, RunState.PAUSED),))
        return pause(view, now_ms)

    return decide


async def test_one_live_occurrence_is_cancelled_with_its_next_timer(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 60_000)
    await arena.insert(new)
    assert new.timer is not None
    next_ms = arena.now_ms + 120_000

    def skip_ahead(view: JobView, run: Run, now_ms: int) -> Change:
        assert (run.state, run.attempt, run.fence) == (RunState.SCHEDULED, 0, 0)
        timer = FirstTimer(next_ms, next_ms, view.job.version)
        return replace(cancel_run(view, run, now_ms), timer=timer)

    key = (new.job.tenant_id, new.job.job_id, new.timer.scheduled_ms)
    changed = await arena.store.change_run(*key, skip_ahead)
    assert changed is not None
    assert changed.view.live == FirstTimer(next_ms, next_ms, 1)
    assert await arena.timers() == [FirstTimer(next_ms, next_ms, 1)]
    assert (await arena.run(new)).state is RunState.CANCELLED


async def test_a_run_that_is_neither_stored_nor_live_is_not_decided_on(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 60_000)
    await arena.insert(new)
    assert new.timer is not None

    def never(view: JobView, run: Run, now_ms: int) -> Change:
        raise AssertionError("asked about a run that does not exist")

    job_id, live_ms = new.job.job_id, new.timer.scheduled_ms
    for tenant_id, scheduled_ms in (("default", live_ms + 1), ("default", 0), ("other", live_ms)):
        assert await arena.store.change_run(tenant_id, job_id, scheduled_ms, never) is None


async def test_a_version_that_was_looked_at_only_stays(arena: Arena) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, nothing)
    assert (await arena.view(new)).job == new.job


async def test_several_moves_of_one_change_are_applied_in_order(arena: Arena) -> None:
    new = arena.one_off(arena.now_ms + 10)
    await arena.insert(new)
    assert new.timer is not None
    at = new.timer.scheduled_ms
    moves = (
        LedgerWrite(at, RunState.PAUSED),
        LedgerWrite(at, RunState.SCHEDULED, follow_up_ms=at + 5),
        LedgerWrite(at, RunState.CANCELLED),
    )
    key = (new.job.tenant_id, new.job.job_id)
    await arena.store.change_job(*key, lambda view, now_ms: Change(runs=moves[:2]))
    assert await arena.timers() == [FirstTimer(at + 5, at, -1)]
    await arena.store.change_job(*key, lambda view, now_ms: Change(runs=moves[2:]))
    assert await arena.timers() == []


async def test_a_one_off_moved_while_paused_is_paused_at_its_new_instant(arena: Arena, owner: Owner) -> None:
    new = arena.one_off(arena.now_ms + 5_000)
    await arena.insert(new)
    later_ms = arena.now_ms + 9_000

    def move(view: JobView, now_ms: int) -> Change:
        job = replace(raise_version(view.job, now_ms, JobState.PAUSED), scheduled_ms=later_ms)
        old = LedgerWrite(now_ms + 5_000, RunState.SKIPPED, SkipReason.SUPERSEDED)
        return Change(job=job, runs=(old, LedgerWrite(later_ms, RunState.PAUSED)))

    await arena.store.change_job("default", new.job.job_id, pause)
    await arena.store.change_job("default", new.job.job_id, move)
    assert await _counts_by_status(arena) == {"PAUSED": 1}
    changed = await arena.store.change_job("default", new.job.job_id, resume(later_ms))
    assert changed is not None
    assert await _counts_by_status(arena) == {"SCHEDULED": 1}
    arena.clock.step_ms(9_000)
    await owner.complete(await owner.win(new, changed.timers[0]), RunState.SUCCEEDED)
    assert await _counts_by_status(arena) == {"SUCCEEDED": 1}
    arena.clock.step_ms(100_000)
    while await arena.store.sweep(arena.now_ms, 1_000):
        pass
    assert (await arena.store.counts()).jobs == 0 or not arena.sweeps_rows


async def _counts_by_status(arena: Arena) -> dict[str, int]:
    counts = {}
    for status in ("SCHEDULED", "PAUSED", "SKIPPED", "SUCCEEDED"):
        page = await arena.store.list_jobs(JobQuery("default", status=status))
        if page.items:
            counts[status] = len(page.items)
    return counts
