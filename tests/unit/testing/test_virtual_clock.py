import asyncio

import pytest

from tickwheel.testing.idle_loop import run, until_idle
from tickwheel.testing.virtual_clock import START_MS, VirtualClock


async def test_sleepers_wake_in_the_order_of_their_instants_whatever_order_they_lay_down_in() -> None:
    clock, woken = VirtualClock(), []

    async def sleeper(length_ms: int) -> None:
        await clock.sleep_ms(length_ms)
        woken.append((length_ms, clock.now_ms() - START_MS))

    async with asyncio.TaskGroup() as group:
        for length_ms in (30, 10, 20, 10):
            group.create_task(sleeper(length_ms))
        await clock.advance(25)
        assert woken == [(10, 10), (10, 10), (20, 20)]
        assert clock.now_ms() == START_MS + 25
        await clock.advance(5)
    assert woken[-1] == (30, 30)


async def test_a_loop_that_sleeps_again_gets_every_turn_within_one_advance() -> None:
    clock, turns = VirtualClock(), []

    async def tick() -> None:
        for _ in range(5):
            await clock.sleep_ms(100)
            for _ in range(10):
                await clock.sleep_ms(0)
            turns.append(clock.monotonic_ms())

    async with asyncio.TaskGroup() as group:
        group.create_task(tick())
        await clock.advance(10_000)
    assert turns == [100, 200, 300, 400, 500]


async def test_auto_jump_moves_only_when_all_is_blocked() -> None:
    clock, seen = VirtualClock(auto_jump=True), []

    async def busy() -> None:
        for _ in range(50):
            await clock.sleep_ms(0)
        seen.append(("busy", clock.monotonic_ms()))

    async def sleepy() -> None:
        await clock.sleep_ms(86_400_000)
        seen.append(("sleepy", clock.monotonic_ms()))
        await clock.sleep_ms(1)
        seen.append(("again", clock.monotonic_ms()))

    await asyncio.gather(busy(), sleepy())
    assert seen == [("busy", 0), ("sleepy", 86_400_000), ("again", 86_400_001)]


async def test_a_cancelled_sleeper_does_not_hold_time_up() -> None:
    clock = VirtualClock(auto_jump=True)
    sleeper = asyncio.ensure_future(clock.sleep_ms(5))
    await until_idle()
    first = clock.monotonic_ms()
    sleeper.cancel()
    await clock.sleep_ms(100)
    assert first in (0, 5)
    assert clock.monotonic_ms() in (100, 105)
    await asyncio.gather(sleeper, return_exceptions=True)


def test_a_step_wakes_everybody_at_the_new_time() -> None:
    clock, woken = VirtualClock(), []

    async def sleeper(length_ms: int) -> None:
        await clock.sleep_ms(length_ms)
        woken.append(clock.monotonic_ms())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper(1))
            group.create_task(sleeper(2))
            await until_idle()
            clock.step_ms(50)

    run(main())
    assert woken == [50, 50]


def test_sleeping_with_auto_jump_on_another_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="IdleLoop"):
        asyncio.run(VirtualClock(auto_jump=True).sleep_ms(1))
