"""An alarm wakes its sleeper and never swallows somebody else's cancel."""

import asyncio
from collections.abc import Callable

import pytest

from tickwheel.services.alarm import Alarm
from tickwheel.testing.idle_loop import run, until_idle
from tickwheel.testing.virtual_clock import VirtualClock


def test_ring_ends_the_sleep_and_leaves_no_cancel_behind() -> None:
    async def scene() -> tuple[bool, int, int]:
        clock = VirtualClock()
        alarm = Alarm(clock)

        async def sleep() -> tuple[bool, int, int]:
            rang = await alarm.sleep_ms(1_000)
            task = asyncio.current_task()
            assert task is not None
            await clock.sleep_ms(0)  # a cancel that was left would end this
            return rang, clock.monotonic_ms(), task.cancelling()

        sleeper = asyncio.create_task(sleep())
        await clock.advance(10)
        alarm.ring()
        await until_idle()
        return await sleeper

    assert run(scene()) == (True, 10, 0)


def test_ring_beforehand_ends_the_next_sleep_only() -> None:
    async def scene() -> list[tuple[bool, int]]:
        clock = VirtualClock(auto_jump=True)
        alarm = Alarm(clock)
        alarm.ring()
        return [(await alarm.sleep_ms(50), clock.monotonic_ms()) for _ in range(2)]

    assert run(scene()) == [(True, 0), (False, 50)]


@pytest.mark.parametrize("ring_first", [True, False])
def test_cancel_gets_through_even_if_the_alarm_rings_as_well(ring_first: bool) -> None:
    async def scene() -> bool:
        clock = VirtualClock()
        alarm = Alarm(clock)
        sleeper = asyncio.create_task(alarm.sleep_ms(1_000))
        await clock.advance(10)
        acts: list[Callable[[], object]] = [alarm.ring, sleeper.cancel]
        for act in acts if ring_first else reversed(acts):
            act()
        await until_idle()
        return sleeper.cancelled()

    assert run(scene())
