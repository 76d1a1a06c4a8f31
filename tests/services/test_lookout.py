"""What those that look on are told when the store is in trouble."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.services.live.overview import PATIENCE_MS, Lookout
from tickwheel.services.live.pulse import Pulse
from tickwheel.services.live.recent import Recent
from tickwheel.services.store_writes import StoreWrites
from tickwheel.testing.virtual_clock import VirtualClock


def lookout_of(clock: VirtualClock, store: MemoryStore, writes: StoreWrites | None = None) -> Lookout:
    pulse = Pulse(
        Recent(clock),
        None,
        ownership=lambda: None,
        is_leader=lambda: True,
        name="here",
        version="1.0",
        roles=("api",),
    )
    return Lookout(pulse, store, clock, writes)


async def test_a_store_that_takes_no_writes_is_told_with_its_reason() -> None:
    clock = VirtualClock()
    writes = StoreWrites(clock)
    lookout = lookout_of(clock, MemoryStore(clock), writes)
    writes.refused(StoreUnavailable("the disk is full"))
    await clock.advance(62_000)
    seen = await lookout.look()
    assert seen.standing is None
    assert seen.says == "The store has taken no writes for 1 min 2 s: the disk is full."
    assert seen.counts is not None
    writes.taken()
    await clock.advance(1_000)
    assert (await lookout.look()).standing is not None


async def test_a_store_that_hangs_is_told_within_seconds_and_asked_once() -> None:
    clock, store = VirtualClock(), MemoryStore(VirtualClock())
    asked, answer = list[int](), asyncio.Event()
    counts: Callable[[], Coroutine[Any, Any, Any]] = store.counts

    async def hang() -> Any:
        asked.append(clock.now_ms())
        await answer.wait()
        return await counts()

    store.counts = hang  # type: ignore[method-assign]
    lookout = lookout_of(clock, store)
    for _ in range(2):
        looking = asyncio.create_task(lookout.look())
        await clock.advance(PATIENCE_MS)
        seen = await looking
        assert (seen.standing, seen.counts) == (None, None)
        assert "has said nothing for 2.0 s" in seen.says
    assert len(asked) == 1
    answer.set()
    await clock.advance(1_000)
    assert (await lookout.look()).counts is not None
    lookout.close()
