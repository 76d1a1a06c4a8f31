"""What the watch of delays keeps of the past."""

from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.services.delay_watch import NOTE_MS, TRIM_MS, TRIM_ROWS

from .explaining_world import ExplainingWorld


async def test_old_delays_go_as_fast_as_many_nodes_made_them() -> None:
    """The node that leads trims for all: more may have come in a minute than it takes away at a time."""
    world = ExplainingWorld()
    scheduler = await world.start()
    old = [Delay(DelayKind.LIMIT, f"key-{number}", "elsewhere", 0, 1, "") for number in range(3 * TRIM_ROWS)]
    await world.store.note_delays(old)
    await world.clock.advance(TRIM_MS + 5 * NOTE_MS)
    left = await world.store.find_delays([(DelayKind.LIMIT, None)], 0, 2)
    await world.crash(scheduler)
    assert left == []
