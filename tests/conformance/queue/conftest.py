"""One suite for every queue: each test runs once per adapter."""

from collections.abc import AsyncIterator

import pytest

from tickwheel.ports.queue import Queue

from .factories import BACKENDS
from .yards import Yard


@pytest.fixture(params=sorted(BACKENDS))
async def yard(request: pytest.FixtureRequest) -> AsyncIterator[Yard]:
    """Where an empty queue of each adapter in turn is to be had."""
    async with BACKENDS[request.param]() as yard:
        yield yard


@pytest.fixture
async def queue(yard: Yard) -> AsyncIterator[Queue]:
    yield await yard.open()  # noqa: PT022 - the conftest drives async generators only
