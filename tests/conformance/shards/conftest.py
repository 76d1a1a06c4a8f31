"""One suite for every store of a cluster: each test runs once per adapter."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tickwheel.testing.virtual_clock import VirtualClock

from .factories import BACKENDS
from .processes import Processes


@pytest.fixture(params=sorted(BACKENDS))
async def processes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Processes]:
    """An empty database of each adapter in turn."""
    clock = VirtualClock()
    processes = Processes(BACKENDS[request.param](tmp_path, clock), clock)
    await processes.open()
    yield processes
    await processes.close()
