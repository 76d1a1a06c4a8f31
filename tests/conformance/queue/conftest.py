"""One suite for every queue: each test runs once per adapter."""

from collections.abc import AsyncIterator

import pytest

from tickwheel.ports.queue import Queue
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import BACKENDS


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=sorted(BACKENDS))
async def queue(request: pytest.FixtureRequest, clock: VirtualClock) -> AsyncIterator[Queue]:
    """An empty queue of each adapter in turn."""
    async with BACKENDS[request.param](clock) as queue:
        yield queue
