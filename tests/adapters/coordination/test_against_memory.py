"""Random histories: beats and locks over keys answer as the coordinator in memory, the reference, does."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.coordination.coordinator import KeyCoordinator
from tickwheel.adapters.memory.coordinator import MemoryCoordinator
from tickwheel.ports.coordinator import Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from .key_table import KeyTable

LAPSE_MS = 2_000
WHO = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["sweep", "export"])
ACTS = st.one_of(
    st.tuples(st.just("beat"), WHO, st.integers(1, 8)),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("acquire_lock"), NAMES, WHO),
    st.tuples(st.just("release_lock"), NAMES, WHO),
    st.tuples(st.just("lock_holder"), NAMES),
    st.tuples(st.just("members")),
    st.tuples(st.just("wait"), st.sampled_from([1, 900, LAPSE_MS - 1, LAPSE_MS])),
)


async def act(coordinator: Coordinator, verb: str, *arguments: Any) -> Any:
    """What the verb gives."""
    payload = [b"note"] if verb == "beat" else []
    return await getattr(coordinator, verb)(*arguments, *payload)


@given(st.lists(ACTS, max_size=40))
def test_any_history_gives_the_same_answers(history: list[tuple[Any, ...]]) -> None:
    async def replay() -> None:
        clock = VirtualClock()
        keys, memory = KeyCoordinator(KeyTable(), clock, LAPSE_MS), MemoryCoordinator(clock, LAPSE_MS)
        given_for: dict[str, int] = {}
        for verb, *arguments in history:
            if verb == "wait":
                clock.step_ms(*arguments)
                continue
            ours, theirs = await act(keys, verb, *arguments), await act(memory, verb, *arguments)
            if verb != "acquire_lock":
                assert ours == theirs, (verb, arguments)
                continue
            assert (ours is None) == (theirs is None), (verb, arguments)
            if ours is not None:
                assert ours >= given_for.get(arguments[0], 0)
                given_for[arguments[0]] = ours

    asyncio.run(replay())
