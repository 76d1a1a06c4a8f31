"""The machine's clock is set while a node runs: nothing stops, nothing is taken for dead, nothing is early."""

from collections import defaultdict
from itertools import pairwise

import pytest

from tickwheel.adapters.system import SystemClock
from tickwheel.testing.virtual_clock import START_MS

from .conftest import MakeNode
from .node import HOUR_MS, SECOND_MS, Node, NodeClock


class SteppedClock(NodeClock):
    """The product's clock over a wall clock that `set_by_ms` moves; sleepers follow the monotonic one."""

    def __init__(self) -> None:
        super().__init__(START_MS)
        self.set_by_ms = 0
        self._estimate = SystemClock(
            wall_ns=lambda: (self.virtual_ms() + self.set_by_ms) * 1_000_000,
            monotonic_ns=lambda: (self.virtual_ms() - START_MS) * 1_000_000,
        )

    def now_ms(self) -> int:
        return self._estimate.now_ms()

    def monotonic_ms(self) -> int:
        return self._estimate.monotonic_ms()


@pytest.mark.pitfall(44)
@pytest.mark.parametrize("step_ms", [-HOUR_MS, -7 * SECOND_MS])
async def test_a_step_back_for_ten_seconds_makes_nothing_late_and_nobody_dead(
    node: MakeNode, step_ms: int
) -> None:
    clock = SteppedClock()
    async with node(clock=clock, lease_ms=12 * SECOND_MS) as world:
        world.work_ms = lambda work: 30 * SECOND_MS if work.job_name == "long" else 0
        long = (await world.create(schedule_type="INSTANT", job_name="long"))["job_id"]
        await world.cron("* * * * * *", job_name="each")
        began_ms, ids = clock.monotonic_ms(), {}
        for tenth in range(1, 250, 3):
            ids[(await world.create(delay_seconds=tenth / 10))["job_id"]] = began_ms + tenth * 100
        started = await walk(world, {5: step_ms, 15: 0}, seconds=35)
        late = [started[job_id][0] - due_ms for job_id, due_ms in ids.items()]
        assert 0 <= min(late) <= max(late) <= 2 * SECOND_MS
        ticks = started["each"]
        assert max(b - a for a, b in pairwise(ticks)) <= 2 * SECOND_MS
        job = (await world.get(long)).json
        assert (job["status"], job["current_attempt"]) == ("SUCCEEDED", 1), "its lease was kept all the time"
        assert len(world.calls) == len(ids) + len(ticks) + 1


@pytest.mark.pitfall(44)
async def test_a_step_forward_fires_what_is_due_by_it_and_takes_no_running_attempt_for_lost(
    node: MakeNode,
) -> None:
    clock = SteppedClock()
    async with node(clock=clock, lease_ms=12 * SECOND_MS) as world:
        world.work_ms = lambda work: 30 * SECOND_MS if work.job_name == "long" else 0
        long = (await world.create(schedule_type="INSTANT", job_name="long"))["job_id"]
        within = (await world.create(delay_seconds=3000))["job_id"]
        beyond = (await world.create(delay_seconds=4000))["job_id"]
        started = await walk(world, {5: HOUR_MS}, seconds=35)
        assert 5 * SECOND_MS <= started[within][0] <= 6 * SECOND_MS
        assert beyond not in started
        job = (await world.get(long)).json
        assert (job["status"], job["current_attempt"]) == ("SUCCEEDED", 1)
        assert len(world.calls) == 2


@pytest.mark.pitfall(44)
async def test_a_reaper_that_looks_before_the_next_heartbeat_leaves_the_running_attempt_alone(
    node: MakeNode,
) -> None:
    clock = SteppedClock()
    async with node(clock=clock) as world:
        world.work_ms = lambda work: 10 * SECOND_MS
        job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
        await clock.advance(SECOND_MS)
        clock.set_by_ms = HOUR_MS
        clock.step_ms(1)
        await world.scheduler._reaper.sweep()
        await clock.advance(20 * SECOND_MS)
        job = (await world.get(job_id)).json
        assert (job["status"], job["current_attempt"], len(world.calls)) == ("SUCCEEDED", 1, 1)


async def walk(world: Node, settings: dict[int, int], *, seconds: int) -> dict[str, list[int]]:
    """Let time pass with the wall clock set off by so much from those seconds on; monotonic starts by job."""
    clock = world.clock
    assert isinstance(clock, SteppedClock)
    started: dict[str, list[int]] = defaultdict(list)
    seen: set[int] = set()
    for tenth in range(seconds * 10):
        clock.set_by_ms = settings.get(tenth // 10, clock.set_by_ms)
        await clock.advance(100)
        for call in world.calls:
            if id(call) not in seen:
                seen.add(id(call))
                name = call.work.job_name if call.work.job_name == "each" else call.work.job_id_text
                started[name].append(clock.monotonic_ms())
    return started
