"""One suite for every registry, which is part of a store: each test runs once per adapter."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tickwheel.testing.virtual_clock import VirtualClock

from ..store.factories import BACKENDS
from .desk import Desk


@pytest.fixture(params=["memory", "postgresql", "sqlite"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty store of each adapter in turn."""
    clock = VirtualClock()
    backend = BACKENDS[request.param](tmp_path, clock)
    desk = Desk(backend, clock)
    await desk.arena.open()
    yield desk
    await desk.store.aclose()
    backend.drop()
