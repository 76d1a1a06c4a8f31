import pytest

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, InsertStatus

from .arena import Arena, without_trust
from .decisions import cancel, edit, pause
from .owner import Owner


async def test_everything_committed_is_there_after_a_restart(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off(idempotency_key=f"k{n}", tags=("t",)) for n in range(6)]
    cron = arena.recurring()
    await arena.insert(*jobs, cron)
    await owner.complete(await owner.win(jobs[0]), RunState.SUCCEEDED)
    await owner.complete(await owner.win(jobs[1]), RunState.FAILED, AttemptNote("boom", "x"))
    await owner.retry_later(await owner.win(jobs[2]), 500)
    await owner.renew(await owner.win(jobs[3]), mark_running=1)
    await arena.store.change_job("default", jobs[4].job.job_id, pause)
    await arena.store.change_job("default", jobs[5].job.job_id, cancel)
    await owner.win(cron, next_ms=arena.now_ms + 60_000)
    await arena.store.change_job("default", cron.job.job_id, edit(arena.now_ms + 90_000))

    async def picture() -> tuple[object, ...]:
        return (
            [await arena.view(new) for new in (*jobs, cron)],
            [await arena.run(new) for new in (*jobs, cron)],
            await arena.timers(),
            await arena.store.counts(),
            await arena.store.list_dead("default", 10, None),
            without_trust(await arena.store.load_work([cron.job.job_id])),
        )

    before = await picture()
    await arena.restart()
    assert await picture() == before
    [answer] = await arena.insert(arena.one_off(idempotency_key="k3"))
    assert (answer.status, answer.job_id) == (InsertStatus.REPLAYED, jobs[3].job.job_id)


@pytest.mark.pitfall(91)
async def test_what_ended_stays_ended_after_a_restart(arena: Arena, owner: Owner) -> None:
    done, cancelled = arena.one_off(), arena.one_off()
    await arena.insert(done, cancelled)
    held = [await owner.win(new) for new in (done, cancelled)]
    await owner.complete(held[0], RunState.SUCCEEDED)
    await arena.store.change_job("default", cancelled.job.job_id, cancel)
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    assert await arena.timers() == []
    for new, attempt in zip((done, cancelled), held, strict=True):
        assert (await heir.claim(new)).verdict is ClaimVerdict.RESOLVED
        assert not (await owner.complete(attempt, RunState.SCHEDULED)).applied
    assert [(await arena.run(new)).state for new in (done, cancelled)] == [
        RunState.SUCCEEDED,
        RunState.CANCELLED,
    ]


async def test_an_insert_without_an_answer_may_be_read_back(arena: Arena) -> None:
    new = arena.one_off()
    assert await arena.store.get_job("default", new.job.job_id) is None
    await arena.insert(new)
    await arena.restart()
    assert (await arena.view(new)).job == new.job


async def test_the_store_answers_a_check(arena: Arena) -> None:
    await arena.store.check()
    await arena.restart()
    await arena.store.check()
