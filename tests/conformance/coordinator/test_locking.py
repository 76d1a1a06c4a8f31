from tickwheel.ports.coordinator import Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import LAPSE_MS

SWEEP = "sweep"


async def held(coordinator: Coordinator, incarnation: str, name: str = SWEEP) -> int:
    token = await coordinator.acquire_lock(name, incarnation)
    assert token is not None
    return token


async def two_members(coordinator: Coordinator) -> None:
    for incarnation in ("a", "b"):
        await coordinator.beat(incarnation, 1, b"")


async def test_one_incarnation_holds_a_lock(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    assert await coordinator.lock_holder(SWEEP) is None
    await held(coordinator, "a")
    assert await coordinator.acquire_lock(SWEEP, "b") is None
    assert await coordinator.lock_holder(SWEEP) == "a"


async def test_the_holder_is_told_its_token_again(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    assert await held(coordinator, "a") == await held(coordinator, "a")


async def test_locks_are_apart(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    await held(coordinator, "a")
    await held(coordinator, "b", "export")
    await coordinator.release_lock(SWEEP, "a")
    assert await coordinator.lock_holder("export") == "b"


async def test_every_acquisition_has_a_higher_token(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    tokens = []
    for incarnation in ("a", "b", "b", "a"):
        tokens.append(await held(coordinator, incarnation))
        await coordinator.release_lock(SWEEP, incarnation)
        assert await coordinator.lock_holder(SWEEP) is None
    assert tokens == sorted(set(tokens))


async def test_only_the_holder_can_release(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    await coordinator.release_lock(SWEEP, "b")
    await held(coordinator, "a")
    await coordinator.release_lock(SWEEP, "b")
    assert await coordinator.lock_holder(SWEEP) == "a"


async def test_who_does_not_beat_gets_no_lock(coordinator: Coordinator, clock: VirtualClock) -> None:
    assert await coordinator.acquire_lock(SWEEP, "a") is None
    await coordinator.beat("a", 1, b"")
    clock.step_ms(LAPSE_MS)
    assert await coordinator.acquire_lock(SWEEP, "a") is None


async def test_beats_keep_a_lock(coordinator: Coordinator, clock: VirtualClock) -> None:
    await two_members(coordinator)
    token = await held(coordinator, "a")
    for counter in range(2, 6):
        clock.step_ms(LAPSE_MS - 1)
        await coordinator.beat("a", counter, b"")
        assert await coordinator.lock_holder(SWEEP) == "a"
    assert await held(coordinator, "a") == token


async def test_a_silent_holder_loses_its_lock_to_a_higher_token(
    coordinator: Coordinator, clock: VirtualClock
) -> None:
    await two_members(coordinator)
    token = await held(coordinator, "a")
    clock.step_ms(LAPSE_MS - 1)
    await coordinator.beat("b", 2, b"")
    assert await coordinator.acquire_lock(SWEEP, "b") is None
    clock.step_ms(1)
    assert await held(coordinator, "b") > token
    await coordinator.beat("a", 2, b"")
    await coordinator.release_lock(SWEEP, "a")
    assert await coordinator.lock_holder(SWEEP) == "b"


async def test_a_repeated_counter_keeps_no_lock(coordinator: Coordinator, clock: VirtualClock) -> None:
    await two_members(coordinator)
    await held(coordinator, "a")
    clock.step_ms(LAPSE_MS - 1)
    await coordinator.beat("a", 1, b"")
    clock.step_ms(1)
    assert await coordinator.lock_holder(SWEEP) is None


async def test_a_lapsed_lock_is_lost_even_when_nobody_took_it(
    coordinator: Coordinator, clock: VirtualClock
) -> None:
    await two_members(coordinator)
    token = await held(coordinator, "a")
    clock.step_ms(LAPSE_MS)
    await coordinator.beat("a", 2, b"")
    assert await coordinator.lock_holder(SWEEP) is None
    assert await held(coordinator, "a") > token


async def test_who_leaves_leaves_its_locks(coordinator: Coordinator) -> None:
    await two_members(coordinator)
    token = await held(coordinator, "a")
    await coordinator.leave("a")
    await coordinator.beat("a", 2, b"")
    assert await coordinator.lock_holder(SWEEP) is None
    assert await held(coordinator, "b") > token
