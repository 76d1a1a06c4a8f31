from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tickwheel.ports.queue import Queue

from .factories import BACKENDS
from .hints import HOOKS, hints

VERBS: dict[str, Callable[[Queue], Awaitable[object]]] = {
    "publish": lambda queue: queue.publish(HOOKS, hints(1)),
    "take": lambda queue: queue.take([HOOKS], 1),
    "wait": lambda queue: queue.wait([HOOKS], 100),
    "depth": lambda queue: queue.depth([HOOKS]),
}


@pytest.fixture(params=sorted(set(BACKENDS) - {"memory"}))
async def unreachable(request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    async with BACKENDS[request.param]() as yard:
        queue = yard.open_unreachable()
        assert queue is not None
        yield queue
        await queue.aclose()


@pytest.mark.parametrize("verb", sorted(VERBS))
async def test_every_verb_says_that_the_queue_can_not_be_reached(unreachable: Queue, verb: str) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await VERBS[verb](unreachable)
