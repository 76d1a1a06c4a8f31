"""The walk over a store, and the standing check of the node that leads."""

import asyncio
from collections import Counter

from tickwheel.domain.ids import job_id_text
from tickwheel.ports.audit import AuditPiece, Standing
from tickwheel.ports.events import AuditEnded
from tickwheel.ports.store import Change, JobView
from tickwheel.services.audit import LAP_MS, Audit, AuditReport, StandingAudit

from .world import World


async def lose_timer(world: World, job_id: bytes) -> None:
    def decide(view: JobView, now_ms: int) -> Change:
        return Change(drop_live=True)

    assert await world.memory.change_job("default", job_id, decide) is not None


async def test_everything_is_counted_once_and_the_lost_is_named() -> None:
    world = World()
    ids = await world.add(None, *(world.job(in_ms=60_000) for _ in range(3)))
    await world.add(None, world.job(cron="* * * * *", first_ms=world.next_minute_ms()))
    await lose_timer(world, ids[1])
    seen: list[int] = []
    running = Audit(store=world.memory, clock=world.clock)
    task = asyncio.ensure_future(running.run(progress=seen.append))
    await world.clock.advance(5_000)
    report = await task
    assert report.accepted == 4
    assert report.unaccounted == 1
    assert report.examples == (job_id_text(ids[1]),)
    assert report.jobs == {Standing.WAITING: 3, Standing.UNACCOUNTED: 1}
    assert sum(seen) == 4


class Flickering:
    """A store in which something is away for one look only, as history is between two transactions."""

    def __init__(self) -> None:
        self.looks = 0

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        self.looks += 1
        if self.looks == 1:
            return AuditPiece({Standing.UNACCOUNTED: 1}, ((bytes(16), 0),), None)
        return AuditPiece({Standing.ENDED: 1}, (), None)

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        return AuditPiece(Counter(), (), None)

    async def audit_slots(self) -> int:
        return 3 if self.looks <= 2 else 0


async def test_what_was_away_for_a_moment_raises_no_alarm() -> None:
    world = World()
    task = asyncio.ensure_future(Audit(store=Flickering(), clock=world.clock).run())
    await world.clock.advance(5_000)
    report = await task
    assert report.unaccounted == 0
    assert report.examples == ()
    assert report.stray_slots == 3, "what is still there at the second look counts"


async def test_slots_of_limits_that_nobody_holds_are_told() -> None:
    world = World()
    world.memory._tables.take_slots((bytes(16), 1), ["key"], waiting=False)
    task = asyncio.ensure_future(Audit(store=world.memory, clock=world.clock).run())
    await world.clock.advance(5_000)
    assert (await task).stray_slots == 1


def last(check: StandingAudit) -> AuditReport | None:
    return check.last


async def test_only_the_leader_checks_and_what_it_found_ends_with_its_lead() -> None:
    world = World()
    leads = False
    check = StandingAudit(store=world.memory, clock=world.clock, events=world.events, is_leader=lambda: leads)
    (job_id,) = await world.add(None, world.job(in_ms=3_600_000))
    loop = asyncio.ensure_future(check.run())
    await world.clock.advance(LAP_MS + 5_000)
    assert last(check) is None
    leads = True
    await world.clock.advance(LAP_MS + 5_000)
    report = last(check)
    assert report is not None
    assert report.unaccounted == 0
    await lose_timer(world, job_id)
    await world.clock.advance(LAP_MS + 10_000)
    assert world.events.of(AuditEnded)[-1].unaccounted == 1
    leads = False
    await world.clock.advance(LAP_MS + 5_000)
    assert last(check) is None
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
