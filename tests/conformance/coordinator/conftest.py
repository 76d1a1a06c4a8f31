"""One suite for every coordinator: each test runs once per adapter."""

from collections.abc import AsyncIterator

import pytest

from tickwheel.ports.coordinator import Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import BACKENDS


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=sorted(BACKENDS))
async def coordinator(request: pytest.FixtureRequest, clock: VirtualClock) -> AsyncIterator[Coordinator]:
    """An empty coordinator of each adapter in turn."""
    async with BACKENDS[request.param](clock) as coordinator:
        yield coordinator
