from tickwheel.ports.coordinator import Beat, Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import LAPSE_MS


async def test_a_first_beat_makes_a_member(coordinator: Coordinator) -> None:
    assert await coordinator.members() == {}
    await coordinator.beat("node-a/1", 1, b"fit\x00")
    assert await coordinator.members() == {"node-a/1": Beat(1, b"fit\x00")}


async def test_each_incarnation_of_a_node_is_a_member_of_its_own(coordinator: Coordinator) -> None:
    await coordinator.beat("node-a/1", 9, b"old")
    await coordinator.beat("node-a/2", 1, b"new")
    assert await coordinator.members() == {"node-a/1": Beat(9, b"old"), "node-a/2": Beat(1, b"new")}


async def test_the_latest_beat_is_shown(coordinator: Coordinator) -> None:
    await coordinator.beat("a", 1, b"fit")
    await coordinator.beat("a", 2, b"draining")
    assert await coordinator.members() == {"a": Beat(2, b"draining")}


async def test_a_beat_that_was_held_up_changes_nothing(coordinator: Coordinator) -> None:
    await coordinator.beat("a", 5, b"new")
    await coordinator.beat("a", 4, b"old")
    await coordinator.beat("a", 5, b"again")
    assert await coordinator.members() == {"a": Beat(5, b"new")}


async def test_what_was_read_does_not_change_under_the_reader(coordinator: Coordinator) -> None:
    await coordinator.beat("a", 1, b"")
    before = await coordinator.members()
    await coordinator.beat("a", 2, b"")
    await coordinator.beat("b", 1, b"")
    assert before == {"a": Beat(1, b"")}


async def test_silence_is_left_to_the_observer(coordinator: Coordinator, clock: VirtualClock) -> None:
    await coordinator.beat("a", 1, b"")
    clock.step_ms(10 * LAPSE_MS)
    assert await coordinator.members() == {"a": Beat(1, b"")}


async def test_who_leaves_is_no_member(coordinator: Coordinator) -> None:
    await coordinator.beat("a", 1, b"")
    await coordinator.beat("b", 1, b"")
    await coordinator.leave("a")
    await coordinator.leave("a")
    assert await coordinator.members() == {"b": Beat(1, b"")}


async def test_who_was_wrongly_taken_for_dead_comes_back_by_its_next_beat(coordinator: Coordinator) -> None:
    await coordinator.beat("a", 7, b"")
    await coordinator.leave("a")
    await coordinator.beat("a", 8, b"")
    assert await coordinator.members() == {"a": Beat(8, b"")}
