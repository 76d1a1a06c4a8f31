"""One suite for every store: each test runs once per adapter."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tickwheel.testing.virtual_clock import VirtualClock

from .arena import Arena
from .factories import BACKENDS
from .owner import Owner


@pytest.fixture(params=sorted(BACKENDS))
async def arena(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Arena]:
    """An empty store of each adapter in turn."""
    clock = VirtualClock()
    backend = BACKENDS[request.param](tmp_path, clock)
    arena = Arena(backend, clock)
    await arena.open()
    yield arena
    await arena.store.aclose()
    backend.drop()


@pytest.fixture
def owner(arena: Arena, runner: asyncio.Runner) -> Owner:
    """A process that has acquired all shards."""
    return runner.run(Owner(arena).acquire())
