"""Scenes of workers apart from owners: hints that come twice or get lost, owners and workers that die."""

import numpy as np

from tickwheel.domain.columns import empty
from tickwheel.domain.run import RunState
from tickwheel.ports.queue import HINT, WEBHOOKS, Topic, tenant_route

from .stage import Stage, with_workers
from .workers import OWN, SLOTS

MANY = 100
ACME = OWN["y"]


async def _begin(stage: Stage, nodes: tuple[str, ...], workers: tuple[str, ...]) -> None:
    for name in workers:
        stage.start_worker(name)
    await stage.start(*nodes)


@with_workers
async def hint_that_comes_twice(stage: Stage) -> None:
    """A hint is published twice, and each of two workers takes one."""
    await _begin(stage, ("a",), ("v", "w"))
    stage.attempts(2_000)
    await stage.add(stage.job(500))
    await stage.until(lambda: any(row.run.state is RunState.RUNNING for row in stage.rows()))
    (run,) = [row.run for row in stage.rows()]
    (holder,) = [worker for worker in stage.workers if (run.worker or "").startswith(worker.process.name)]
    holder.stop()
    hint = empty(HINT, 1)
    hint[0] = (np.void(run.job_id), run.scheduled_ms, run.fence, int(run.lane))
    await stage.queue.inner.publish(Topic(run.lane, WEBHOOKS), hint)
    await stage.pass_ms(1_000)
    holder.go_on()
    await stage.pass_ms(3_000)


@with_workers
async def hints_that_get_lost(stage: Stage) -> None:
    """The queue loses a hint before anybody has taken it."""
    await _begin(stage, ("a",), ("v",))
    stage.queue.loses = True
    await stage.add(stage.job(500))
    await stage.pass_ms(1_500)
    stage.queue.loses = False
    await stage.pass_ms(5_000)


@with_workers
async def owner_dies_with_a_queued_run(stage: Stage) -> None:
    """The hint is lost, and then the owner that published it."""
    await _begin(stage, ("a", "b"), ("v",))
    owner = stage.owner()
    stage.queue.loses = True
    await stage.add(stage.job(500))
    await stage.pass_ms(1_500)
    stage.queue.loses = False
    stage.kill(owner)
    await stage.pass_ms(5_000)


@with_workers
async def worker_dies_with_a_run(stage: Stage) -> None:
    """A worker dies in the middle of an attempt, right after it began."""
    await _begin(stage, ("a",), ("v", "w"))
    stage.first_attempts(20_000, stage.ok)
    await stage.add(stage.job(500))
    await stage.until(lambda: any(row.run.state is RunState.RUNNING for row in stage.rows()))
    (running,) = [row.run.worker for row in stage.rows() if row.run.state is RunState.RUNNING]
    for worker in list(stage.workers):
        if running is not None and running.startswith(worker.process.name):
            worker.kill()
            stage.workers.remove(worker)
    await stage.pass_ms(7_000)


@with_workers
async def more_due_than_workers_can_do(stage: Stage) -> None:
    """A hundred runs are due and one worker has a dozen slots."""
    await _begin(stage, ("a",), ("v",))
    stage.attempts(3_000)
    await stage.add(*(stage.job(500) for _ in range(MANY)))
    await stage.pass_ms(2_000)
    queued = sum(row.run.state is RunState.CLAIMED for row in stage.rows())
    if queued > SLOTS:
        stage.rulebook.broken("I12 slots", f"{queued} runs are queued for {SLOTS} slots")
    stage.attempts(1)
    await stage.pass_ms(4_000)


@with_workers
async def hint_among_those_of_another_tenant(stage: Stage) -> None:
    """The queue holds a hint where only those for the own workers of another tenant are."""
    await _begin(stage, ("a",), ("v", "y"))
    stage.queue.loses = True
    await stage.add(stage.job(500))
    await stage.until(lambda: any(row.run.state is RunState.CLAIMED for row in stage.rows()))
    await stage.pass_ms(300)
    stage.queue.loses = False
    (run,) = [row.run for row in stage.rows()]
    hint = empty(HINT, 1)
    hint[0] = (np.void(run.job_id), run.scheduled_ms, run.fence, int(run.lane))
    await stage.queue.inner.publish(Topic(run.lane, tenant_route(ACME, WEBHOOKS)), hint)
    await stage.pass_ms(6_000)


@with_workers
async def own_worker_and_nobody_else(stage: Stage) -> None:
    """There is nobody but a tenant's own worker, and a run of that tenant is due."""
    await _begin(stage, ("a",), ("y",))
    await stage.add(stage.job(500, tenant_id=ACME))
    await stage.pass_ms(6_000)
    _expect_done(stage)


@with_workers
async def own_worker_dies_before_it_looks(stage: Stage) -> None:
    """A hint waits for a tenant's own worker, which dies; a worker of all tenants is left."""
    await _begin(stage, ("a",), ("v", "y"))
    await stage.pass_ms(1_500)
    (own,) = [worker for worker in stage.workers if worker.tenant_id]
    own.stop()
    await stage.add(stage.job(500, tenant_id=ACME))
    await stage.pass_ms(1_500)
    own.kill()
    stage.workers.remove(own)
    await stage.pass_ms(25_000)
    _expect_done(stage)


def _expect_done(stage: Stage) -> None:
    """Here and now: when all is calm, new workers come."""
    if [row.run.state for row in stage.rows()] != [RunState.SUCCEEDED]:
        stage.rulebook.broken("T2 reached", "a run does not reach the workers that are there for it")
