"""The world that the tests of the API play in."""

from collections.abc import AsyncIterator

import pytest

from .world import HttpWorld


@pytest.fixture
async def world() -> AsyncIterator[HttpWorld]:
    """An API without tokens."""
    world = await HttpWorld().open()
    yield world
    await world.close()
