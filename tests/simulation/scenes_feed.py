"""Scenes of loading and feeding: the rules A, B and C of the protocol. While all rules hold, each ends well."""

import numpy as np

from tickwheel.domain.columns import TIMER
from tickwheel.domain.outcome import OK
from tickwheel.testing.model import Fate

from .stage import SHARD, TENANT, Stage
from .targets import FAILED


async def far_insert(stage: Stage) -> None:
    """A timer that is five seconds away is committed after its slice was read: only the feed can bring it."""
    await stage.start("a")
    await stage.add(stage.job(5_000))
    await stage.pass_ms(6_000)


async def insert_at_the_drop(stage: Stage) -> None:
    """A job that is long due is inserted between the decision to drop a leaf and the drop."""
    await stage.start("a")
    stage.database.seal()
    await stage.pass_ms(9_000)
    sealed_ms = stage.database.seal()
    assert sealed_ms is not None
    await stage.add(stage.job(sealed_ms - 500 - stage.clock.now_ms()))
    stage.database.drop(sealed_ms)


async def open_insert_at_the_drop(stage: Stage) -> None:
    """An insert that began before the leaf's end commits just before the leaf is dropped."""
    await stage.start("a")
    await stage.to_second()
    stage.add_open(8_530, stage.job(0))
    for _ in range(16):
        await stage.pass_ms(500)
        stage.database.seal()
    sealed_ms = stage.database.seal() or stage.database.tables.sealed_ms
    await stage.until(lambda: stage.database.open_count == 0)
    stage.database.drop(sealed_ms)


async def pause_and_resume(stage: Stage) -> None:
    """A one-off is paused and resumed before it is due, by somebody who can't arm it."""
    await stage.start("a")
    job_id = await stage.add(stage.job(3_000))
    await stage.pass_ms(500)
    await stage.now(stage.jobs.pause(TENANT, job_id))
    await stage.pass_ms(500)
    await stage.now(stage.jobs.resume(TENANT, job_id))
    await stage.pass_ms(3_000)


async def answer_of_own_insert_lost(stage: Stage) -> None:
    """The owner itself inserts a job and never learns that it was committed."""
    [node] = await stage.start("a")
    stage.script_of("a").fates["insert_jobs"] = [Fate.ANSWER_LOST]
    stage.begin(node.store.insert_jobs([stage.job(500)]))
    await stage.pass_ms(2_000)


async def late_commit_across_a_takeover(stage: Stage) -> None:
    """An insert hangs; the owner's position passes its due time; the owner dies, and then the insert commits."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.add_open(2_600, stage.job(0))
    await stage.pass_ms(2_500)
    stage.kill(owner)
    await stage.pass_ms(2_000)


async def inserts_all_the_time(stage: Stage) -> None:
    """Commits at every moment, also between the rows of a poll and what comes after them."""
    await stage.start("a")
    stage.script_of("a").ways["feed"] = stage.script_of("a").ways["take_snapshot"] = 2
    for _ in range(120):
        await stage.add(stage.job(400))
        await stage.pass_ms(2)


async def insert_beside_a_slow_slice(stage: Stage) -> None:
    """Jobs of one instant are committed while its slice is on its way, and polled before it arrives."""
    stage.script_of("a").ways["load_timers"] = 400
    stage.start_node("a")
    due_ms = stage.clock.now_ms() + 14_000
    for _ in range(70):
        await stage.add(stage.job(due_ms - stage.clock.now_ms()))
        await stage.pass_ms(60)
    stage.script_of("a").ways.clear()
    await stage.pass_ms(11_000)


async def ids_given_out_again(stage: Stage) -> None:
    """The server dies with transactions open that had drawn high ids; what comes after it gets them again."""
    await stage.start("a")
    await stage.to_second()
    await stage.pass_ms(30)
    stage.script.fates["insert_jobs"] = [Fate.ABORTED] * 40
    for _ in range(40):
        stage.begin(stage.outside.insert_jobs([stage.job()]))
    await stage.pass_ms(150)
    stage.database.crash()
    stage.database.restart()
    for _ in range(5):
        await stage.add(stage.job(600))
    await stage.pass_ms(2_000)


async def commits_between_poll_and_pair(stage: Stage) -> None:
    """Late commits, one every few ms, and the owner dies right after it stored a pair."""
    await stage.start("a", "b")
    owner = stage.owner()
    await stage.to_second()
    for number in range(150):
        stage.add_open(2_500 + 10 * number, stage.job(0))
        await stage.pass_ms(1)
    await stage.pass_ms(2_500)
    dead: list[bool] = []

    def die() -> None:
        stage.kill(owner)
        dead.append(True)

    stage.after_pair(die)
    await stage.until(lambda: bool(dead))
    await stage.pass_ms(2_000)


async def late_row_that_is_not_claimed_yet(stage: Stage) -> None:
    """A row commits long after it was due, is fed, and its owner dies before it can claim it."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.add_open(2_500, stage.job(0))
    await stage.pass_ms(2_000)
    stage.script_of(owner.name).refused.add("claim")
    await stage.pass_ms(2_600)
    stage.kill(owner)
    await stage.pass_ms(2_000)


async def claims_do_not_get_through(stage: Stage) -> None:
    """A timer is due and its claim sent again and again, in vain; then its owner dies."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.script_of(owner.name).refused.add("claim")
    await stage.add(stage.job(100))
    await stage.pass_ms(2_600)
    stage.kill(owner)
    await stage.pass_ms(2_000)


async def owner_and_worker_die_early(stage: Stage) -> None:
    """An attempt has run for a moment, without a lease row, when owner and worker die: right after a pair."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.first_attempts(10_000, OK)
    dead: list[bool] = []

    def die() -> None:
        stage.kill(owner)
        dead.append(True)

    before = stage.database.tables.ownership.pairs[SHARD]
    await stage.until(lambda: stage.database.tables.ownership.pairs[SHARD] is not before)
    await stage.pass_ms(880)
    await stage.add(stage.job(0))
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    stage.after_pair(die)
    await stage.until(lambda: bool(dead))
    await stage.pass_ms(4_000)


async def old_timer_again(stage: Stage) -> None:
    """The first timer of a run that waits for its retry comes up once more."""
    [node] = await stage.start("a")
    stage.first_attempts(1, FAILED)
    new = stage.job(0)
    job_id = await stage.add(new)
    await stage.until(lambda: stage.state_of(job_id) == ["SCHEDULED"])
    assert new.timer is not None
    rows = np.zeros(1, dtype=TIMER)
    rows[0] = (new.timer.due_ms, job_id, new.timer.scheduled_ms, new.timer.gen, new.job.timer_flags)
    node.scheduler.ready.push(rows)
    node.scheduler._claims.wake()
    await stage.pass_ms(2_000)
