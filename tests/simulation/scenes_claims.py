"""Scenes of claims, recurring jobs, attempts and members: the rules D to G of the protocol."""

import json

import numpy as np

from tickwheel.domain.columns import TIMER
from tickwheel.domain.concurrency import Limit
from tickwheel.domain.job import CatchUp, Lane, Overlap
from tickwheel.domain.outcome import OK
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.ports.store import NewJob
from tickwheel.testing.model import Fate as CallFate

from .nodes import SLOTS, Node
from .rulebook import TENANT_LIMITS
from .stage import TENANT, Stage
from .targets import FAILED, Fate

LIMITED = "acme"
EVERY_SECOND = "* * * * * *"
EVERY_SECOND_SECOND = ("*/2 * * * * *", "1/2 * * * * *")


def _offer_again(node: Node, new: NewJob) -> None:
    """The first timer of a job comes up once more on this node."""
    assert new.timer is not None
    rows = np.zeros(1, dtype=TIMER)
    rows[0] = (new.timer.due_ms, new.job.job_id, new.timer.scheduled_ms, new.timer.gen, new.job.timer_flags)
    node.scheduler.ready.push(rows)
    node.scheduler._claims.wake()


async def open_claim_across_a_takeover(stage: Stage) -> None:
    """The claim of one run is still open when its owner is dead; the next owner claims another run of the job.

    It is busy, so it does not come to the first run yet; the second one waits in a lane that has slots of its own.
    """
    await stage.start("a", "b")
    owner = stage.owner()
    heir = stage.other(owner)
    stage.by_run(lambda work: Fate(2_500 if work.lane == Lane.DEFAULT else 1, OK))
    busy = next(shard for shard in heir.scheduler.holdings.shards())
    await stage.add(*(stage.job(0, shard=busy) for _ in range(2 * SLOTS)))
    await stage.pass_ms(100)
    stage.script_of(owner.name).opens["claim"] = [990]
    job_id = await stage.waiting_runs(60)
    await stage.one_more_run(job_id, 750, Lane.CRITICAL)
    await stage.until(lambda: stage.database.open_count > 0)
    stage.kill(owner)
    await stage.pass_ms(2_000)


async def two_runs_at_once(stage: Stage) -> None:
    """Two runs of a job are due shortly after one another, and the claim of the first hangs."""
    [node] = await stage.start("a")
    stage.script_of("a").opens["claim"] = [800]
    await stage.waiting_runs(100, 200)
    await stage.pass_ms(2_000)
    assert node.answers


async def owner_dies_in_a_chain(stage: Stage) -> None:
    """A job that runs each second changes its owner."""
    await stage.start("a", "b")
    owner = stage.owner()
    at_ms = await stage.to_second()
    await stage.add(stage.job(1_000, cron=EVERY_SECOND))
    await stage.pass_ms(2_500)
    stage.kill(owner)
    await stage.pass_ms(3_000)
    assert stage.clock.now_ms() > at_ms


async def lost_attempt_beside_a_newer_token(stage: Stage) -> None:
    """A run is lost with its worker after another run of the job was given the next token."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.first_attempts(20_000, OK)
    await stage.waiting_runs(50, 90)
    await stage.until(lambda: len(stage.database.tables.in_flight) == 2)
    stage.kill(owner)
    await stage.pass_ms(3_000)


async def cancel_beside_an_open_claim(stage: Stage) -> None:
    """A recurring job is cancelled while the claim of its occurrence is open."""
    await stage.start("a")
    await stage.to_second()
    job_id = await stage.add(stage.job(1_000, cron=EVERY_SECOND))
    stage.script_of("a").opens["claim"] = [700]
    stage.attempts(1_500)
    await stage.until(lambda: stage.database.open_count > 0)
    await stage.pass_ms(50)
    await stage.now(stage.jobs.cancel(TENANT, job_id))
    stage.rulebook.cancelled(job_id)
    await stage.pass_ms(3_000)


async def loser_with_a_fast_clock(stage: Stage) -> None:
    """An occurrence that has its row comes up again on a node whose clock is fast: it plans another next one."""
    [node] = await stage.start("a")
    at_ms = await stage.to_second()
    new = stage.job(1_000, cron=EVERY_SECOND_SECOND[(at_ms // 1_000 + 1) % 2])
    job_id = await stage.add(new)
    await stage.pass_ms(1_500)
    assert stage.state_of(job_id) == ["SUCCEEDED"]
    node.clock.skew_ms = 3_000
    _offer_again(node, new)
    await stage.pass_ms(200)
    node.clock.skew_ms = 0
    await stage.pass_ms(4_000)


async def edit_after_a_cancelled_occurrence(stage: Stage) -> None:
    """The next occurrence is cancelled ahead, then the job is edited: the next instant after now has its row."""
    await stage.start("a")
    at_ms = await stage.to_second()
    job_id = await stage.add(stage.job(3_000, cron=EVERY_SECOND_SECOND[(at_ms // 1_000 + 1) % 2]))
    await stage.pass_ms(1_200)
    await stage.now(stage.runs.cancel(TENANT, job_id, at_ms + 3_000))
    await stage.now(stage.jobs.edit(TENANT, job_id, parse_patch(b'{"payload": 2}')))
    await stage.pass_ms(4_000)


async def edit_of_the_expression(stage: Stage) -> None:
    """The next occurrence is in the owner's memory when somebody else moves the job to other instants."""
    await stage.start("a")
    at_ms = await stage.to_second()
    even = (at_ms // 1_000) % 2 == 0
    job_id = await stage.add(stage.job(2_000, cron=EVERY_SECOND_SECOND[0 if even else 1]))
    await stage.pass_ms(900)
    patch = json.dumps({"cron_expression": EVERY_SECOND_SECOND[1 if even else 0]})
    await stage.now(stage.jobs.edit(TENANT, job_id, parse_patch(patch.encode())))
    await stage.pass_ms(4_000)


async def edit_of_an_overdue_job(stage: Stage) -> None:
    """The owner is behind; the job is edited when an occurrence is due and has no row yet."""
    await stage.start("a")
    await stage.to_second()
    job_id = await stage.add(stage.job(1_000, cron=EVERY_SECOND))
    stage.script_of("a").refused.add("claim")
    await stage.pass_ms(1_600)
    await stage.now(stage.jobs.edit(TENANT, job_id, parse_patch(b'{"payload": 2}')))
    stage.script_of("a").refused.clear()
    await stage.pass_ms(2_000)


async def skip_of_late_occurrences(stage: Stage) -> None:
    """The owner is behind, and the policy is to skip what is late."""
    await stage.start("a")
    await stage.to_second()
    await stage.add(stage.job(1_000, cron=EVERY_SECOND, catch_up=CatchUp.SKIP))
    stage.script_of("a").refused.add("claim")
    await stage.pass_ms(4_600)
    stage.script_of("a").refused.clear()
    await stage.pass_ms(3_000)


async def occurrence_beside_a_waiting_retry(stage: Stage) -> None:
    """An occurrence is due while the one before it waits for its retry, and overlap is forbidden."""
    await stage.start("a")
    await stage.to_second()
    stage.first_attempts(990, FAILED)
    await stage.add(stage.job(1_000, cron=EVERY_SECOND, overlap=Overlap.SKIP))
    await stage.pass_ms(5_000)


async def timer_of_a_run_in_flight(stage: Stage) -> None:
    """The timer of an attempt that is running comes up once more."""
    [node] = await stage.start("a")
    stage.attempts(1_000)
    new = stage.job(0)
    await stage.add(new)
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    await stage.pass_ms(50)
    _offer_again(node, new)
    await stage.pass_ms(2_000)


async def owner_stops_with_an_attempt(stage: Stage) -> None:
    """A node stands still with an attempt running; another one takes its shards and meets the run."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.first_attempts(20_000, OK)
    await stage.add(stage.job(0))
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    await stage.pass_ms(100)
    owner.stop()
    await stage.pass_ms(3_000)
    owner.go_on()
    await stage.pass_ms(4_000)


async def dies_between_claim_and_start(stage: Stage) -> None:
    """The only attempt that the policy allows is claimed, and its node dies before it begins."""
    await stage.start("a", "b")
    owner = stage.owner()
    stage.script_of(owner.name).ways["renew"] = 300
    await stage.add(stage.job(0, retries=0))
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    stage.kill(owner)
    await stage.pass_ms(3_000)


async def cancel_of_a_running_attempt(stage: Stage) -> None:
    """A run is cancelled by somebody else while its attempt is about to succeed."""
    await stage.start("a")
    stage.attempts(90)
    new = stage.job(0)
    job_id = await stage.add(new)
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    await stage.now(stage.jobs.cancel(TENANT, job_id))
    stage.rulebook.cancelled(job_id)
    await stage.pass_ms(1_000)


async def two_nodes_claim_for_one_key(stage: Stage) -> None:
    """Two nodes claim runs of one key, of which one may run, and both claims hang."""
    first, second = await stage.start("a", "b")
    for name in ("a", "b"):
        stage.script_of(name).opens["claim"] = [300]
    stage.attempts(1_000)
    shards = [next(iter(node.scheduler.holdings.shards())) for node in (first, second)]
    await stage.add(*(stage.job(200, shard=shard, concurrency=(Limit(1, key="k"),)) for shard in shards))
    await stage.pass_ms(4_000)


async def more_runs_than_their_tenant_may_have(stage: Stage) -> None:
    """Jobs that state no limit are due at two nodes at once; the record of their tenant states one."""
    nodes = await stage.start("a", "b")
    stage.attempts(1_000)
    shards = [next(iter(node.scheduler.holdings.shards())) for node in nodes]
    for _ in range(TENANT_LIMITS[LIMITED]):
        await stage.add(*(stage.job(200, shard=shard, tenant_id=LIMITED) for shard in shards))
    await stage.pass_ms(4_000)


async def slot_that_another_node_frees(stage: Stage) -> None:
    """A run waits for the slot that a run on another node holds."""
    first, second = await stage.start("a", "b")
    stage.attempts(900)
    shards = [next(iter(node.scheduler.holdings.shards())) for node in (first, second)]
    await stage.add(stage.job(0, shard=shards[0], concurrency=(Limit(1, key="k"),)))
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    await stage.add(stage.job(0, shard=shards[1], concurrency=(Limit(1, key="k"),)))
    await stage.pass_ms(3_000)


async def holder_behind_a_crowd(stage: Stage) -> None:
    """A run holds the only slot and its node dies; on the heir others of its key wait, and are due before it."""
    first, second = await stage.start("a", "b")
    mine, other = (next(iter(node.scheduler.holdings.shards())) for node in (first, second))
    stage.script_of("b").ways["claim"] = 100
    holder = stage.job(120, shard=mine, concurrency=(Limit(1, key="k"),))
    stage.by_run(lambda work: Fate(20_000 if work.job_id == holder.job.job_id else 1, OK))
    await stage.add(*(stage.job(50 + n, shard=other, concurrency=(Limit(1, key="k"),)) for n in range(3)), holder)
    await stage.until(lambda: bool(stage.database.tables.in_flight))
    await stage.pass_ms(200)
    stage.kill(first)
    stage.script_of("b").ways["claim"] = 0
    stage.attempts(1)
    await stage.pass_ms(8_000)


async def second_start_under_a_name(stage: Stage) -> None:
    """A node stands still, is started once more under its name, and wakes up."""
    await stage.start("a", "b")
    first = next(node for node in stage.nodes if node.name == "a")
    first.stop()
    stage.start_node("a")
    await stage.pass_ms(2_500)
    first.go_on()
    await stage.pass_ms(2_000)


async def coordinator_restarts(stage: Stage) -> None:
    """The coordinator answers nobody for three seconds, and then one node first. That kills nobody."""
    await stage.start("a", "b", "c")
    await stage.pass_ms(150)
    stage.coordination.is_up = False
    await stage.pass_ms(3_000)
    late = stage.nodes[1:]
    for node in late:
        node.process.reaches_coordinator = False
    stage.coordination.is_up = True
    await stage.pass_ms(500)
    for node in late:
        node.process.reaches_coordinator = True
    await stage.pass_ms(2_000)
    for name, row in stage.database.tables.ownership.nodes.items():
        if row.deposed:
            stage.rulebook.broken("G2 killed the living", name)


async def unfit_node(stage: Stage) -> None:
    """A node's clock is off: it gives its shards up, and others have to take them."""
    first, _ = await stage.start("a", "b")
    shards = list(first.scheduler.holdings.shards())
    first.ownership.set_unfit("the clock is off")
    await stage.pass_ms(1_500)
    await stage.add(*(stage.job(200, shard=shard) for shard in shards[:20]))
    await stage.pass_ms(3_000)


async def answer_of_a_take_lost(stage: Stage) -> None:
    """A node takes a dead node's shards and never learns that it did."""
    await stage.start("a", "b")
    first = stage.owner()
    other = stage.other(first)
    stage.script_of(other.name).fates["take"] = [CallFate.ANSWER_LOST]
    stage.kill(first)
    await stage.pass_ms(2_000)
    await stage.add(stage.job(200))
    await stage.pass_ms(2_000)
