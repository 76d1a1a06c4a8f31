"""The filling of the buffer and the rising of the wheel's end cross each other: no timer falls between the two."""

import numpy as np

from tickwheel.adapters.memory.buffer import MemoryBuffer
from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.domain.minutes import MINUTE_MS, floor_minute_ms
from tickwheel.domain.wheel import TimingWheel
from tickwheel.services.buffering.far_timers import FarTimers
from tickwheel.services.buffering.filling import Filling
from tickwheel.services.buffering.mover import Mover
from tickwheel.services.ownership.groups import Groups, ShardGroup
from tickwheel.testing.virtual_clock import VirtualClock

from .world import Events


def timer(due_ms: int) -> Rows:
    job_id = make_job_id(created_ms=1, shard=9, due_ms=due_ms, random48=bytes(6))
    return np.array([(due_ms, job_id, due_ms, 1, 0)], dtype=TIMER)


class Crossing:
    """A store whose page is read just before `hi` rises over a part of it."""

    def __init__(self) -> None:
        clock, events = VirtualClock(), Events()
        self.wheel, self.rows = TimingWheel(clock.now_ms()), empty(TIMER)
        self.far = FarTimers(buffer=MemoryBuffer(), recent=None, clock=clock, events=events)
        self.groups = Groups(
            wheel=self.wheel,
            recent=None,
            now_ms=clock.now_ms,
            on_armed=lambda: None,
            on_new=lambda: None,
            far=self.far,
        )
        self.groups.add(range(SHARD_COUNT), None, 0)
        self.group: ShardGroup = self.groups.all[0]
        self.groups.begin(self.group)
        self.hi_ms = floor_minute_ms(clock.now_ms()) + 5 * MINUTE_MS
        self.groups.raise_hi(self.group, self.hi_ms)
        self.group.gaps.clear()
        self.filling = Filling(
            store=self,  # type: ignore[arg-type]  # only this verb is called
            sharded=False,
            groups=self.groups,
            far=self.far,
            floor_ms=lambda: 0,
            clock=clock,
            horizon_ms=20 * MINUTE_MS,
        )
        self.mover = Mover(far=self.far, groups=self.groups)

    async def load_timers(self, from_ms: int, until_ms: int, limit: int) -> Rows:
        self.groups.raise_hi(self.group, self.hi_ms + MINUTE_MS)
        return self.rows

    async def move(self) -> bool:
        """Whether nothing is left to be read from the store."""
        assert self.mover.has(self.group, self.hi_ms, self.group.hi_ms)
        missing, _ = await self.mover.arm_minute(self.group, self.hi_ms)
        return not missing.any()


async def test_what_the_end_passed_while_it_was_read_is_moved_from_the_buffer() -> None:
    crossing = Crossing()
    crossing.rows = np.concatenate([timer(crossing.hi_ms + 500), timer(crossing.hi_ms + 3 * MINUTE_MS)])
    assert await crossing.filling.fill()
    assert await crossing.move()
    assert len(crossing.wheel) == 1


async def test_what_is_put_just_before_the_end_rises_is_moved_though_it_still_waited_for_others() -> None:
    crossing = Crossing()
    assert await crossing.filling.fill()
    crossing.hi_ms += MINUTE_MS
    crossing.groups.arm(timer(crossing.hi_ms + 500))
    assert not len(crossing.wheel)
    crossing.groups.raise_hi(crossing.group, crossing.hi_ms + MINUTE_MS)
    assert await crossing.move()
    assert len(crossing.wheel) == 1


async def test_a_minute_that_is_filled_by_half_is_not_moved() -> None:
    crossing = Crossing()
    crossing.far.begin(np.arange(SHARD_COUNT), crossing.hi_ms)
    crossing.far.reach(np.arange(SHARD_COUNT), crossing.hi_ms + 10 * MINUTE_MS)
    crossing.far.filled_ms[:] = crossing.hi_ms + MINUTE_MS - 1
    assert not crossing.mover.has(crossing.group, crossing.hi_ms, crossing.hi_ms + MINUTE_MS)
