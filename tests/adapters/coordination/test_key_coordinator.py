"""What is special about beats and locks over keys: observers on several machines, and answers that get lost."""

import pytest

from tickwheel.adapters.coordination.coordinator import KeyCoordinator
from tickwheel.adapters.coordination.keys import Entry
from tickwheel.ports.coordinator import Beat
from tickwheel.testing.virtual_clock import VirtualClock

from .key_table import KeyTable

LAPSE_MS = 2_000
SWEEP = "sweep"


@pytest.fixture
def table() -> KeyTable:
    return KeyTable()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def here(table: KeyTable, clock: VirtualClock) -> KeyCoordinator:
    return KeyCoordinator(table, clock, LAPSE_MS)


@pytest.fixture
def there(table: KeyTable, clock: VirtualClock) -> KeyCoordinator:
    """Another process, with sightings of its own."""
    return KeyCoordinator(table, clock, LAPSE_MS)


async def test_a_beat_whose_answer_was_lost_counts_once(table: KeyTable, here: KeyCoordinator) -> None:
    await here.beat("a", 1, b"")
    table.loses_next_answer = True
    with pytest.raises(ConnectionError):
        await here.beat("a", 2, b"x")
    await here.beat("a", 2, b"x")
    assert await here.members() == {"a": Beat(2, b"x")}
    await here.beat("a", 3, b"x")
    assert await here.members() == {"a": Beat(3, b"x")}


async def test_a_lock_whose_answer_was_lost_is_found_by_asking_again(
    table: KeyTable, here: KeyCoordinator
) -> None:
    await here.beat("a", 1, b"")
    table.loses_next_answer = True
    with pytest.raises(ConnectionError):
        await here.acquire_lock(SWEEP, "a")
    token = await here.acquire_lock(SWEEP, "a")
    assert token is not None
    assert token == await here.acquire_lock(SWEEP, "a")


async def test_who_has_just_arrived_waits_before_it_takes_a_lock(
    here: KeyCoordinator, there: KeyCoordinator, clock: VirtualClock
) -> None:
    """A holder that somebody sees for the first time may have beaten a moment ago."""
    await here.beat("a", 1, b"")
    assert await here.acquire_lock(SWEEP, "a") is not None
    clock.step_ms(10 * LAPSE_MS)
    await there.beat("b", 1, b"")
    assert await there.acquire_lock(SWEEP, "b") is None
    clock.step_ms(LAPSE_MS)
    await there.beat("b", 2, b"")
    assert await there.acquire_lock(SWEEP, "b") is not None


async def test_an_outage_is_nobodys_silence(
    table: KeyTable, here: KeyCoordinator, there: KeyCoordinator, clock: VirtualClock
) -> None:
    """G2 for locks: absences start anew after a call of one's own failed."""
    await here.beat("a", 1, b"")
    await there.beat("b", 1, b"")
    token = await here.acquire_lock(SWEEP, "a")
    assert await there.acquire_lock(SWEEP, "b") is None
    table.is_reachable = False
    clock.step_ms(2 * LAPSE_MS)
    with pytest.raises(ConnectionError):
        await there.beat("b", 2, b"")
    table.is_reachable = True
    await there.beat("b", 3, b"")
    assert await there.acquire_lock(SWEEP, "b") is None
    assert await there.lock_holder(SWEEP) == "a"
    assert token == 3


async def test_a_holder_that_could_not_beat_drops_its_lock_itself(
    table: KeyTable, here: KeyCoordinator, clock: VirtualClock
) -> None:
    """Others may have counted on meanwhile: whoever was away for the lapse takes a new token."""
    await here.beat("a", 1, b"")
    token = await here.acquire_lock(SWEEP, "a")
    assert token is not None
    table.is_reachable = False
    clock.step_ms(LAPSE_MS)
    with pytest.raises(ConnectionError):
        await here.beat("a", 2, b"")
    table.is_reachable = True
    assert await here.acquire_lock(SWEEP, "a") is None
    await here.beat("a", 3, b"")
    later = await here.acquire_lock(SWEEP, "a")
    assert later is not None
    assert later > token


async def test_a_beat_in_time_saves_the_lock_from_an_observer_that_is_about_to_drop_it(
    table: KeyTable, here: KeyCoordinator, there: KeyCoordinator, clock: VirtualClock
) -> None:
    await here.beat("a", 1, b"")
    await there.beat("b", 1, b"")
    await here.acquire_lock(SWEEP, "a")
    await there.lock_holder(SWEEP)
    clock.step_ms(LAPSE_MS - 1)
    await there.beat("b", 2, b"")
    clock.step_ms(1)
    read = table.read

    async def read_then_be_overtaken() -> dict[str, Entry]:
        entries = dict(await read())
        table.read = read  # type: ignore[method-assign]  # once
        old = table.entries["members/a"]
        table.revision += 1
        table.entries["members/a"] = Entry(b"2 ", old.created, table.revision)
        return entries

    table.read = read_then_be_overtaken  # type: ignore[method-assign]  # the beat comes between read and write
    assert await there.acquire_lock(SWEEP, "b") is None
    assert await there.lock_holder(SWEEP) == "a"


async def test_what_people_put_beside_the_keys_is_ignored(table: KeyTable, here: KeyCoordinator) -> None:
    table.revision = 2
    table.entries = {
        "members/note": Entry(b"do not delete", 1, 1),
        "members/one": Entry(b"1" * 5_000 + b" note", 1, 1),
        "readme": Entry(b"", 2, 2),
    }
    await here.beat("a", 1, b"")
    assert await here.members() == {"a": Beat(1, b"")}
