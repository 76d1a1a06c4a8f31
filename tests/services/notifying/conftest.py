"""The stage that all stories play on."""

import asyncio
from collections.abc import Iterator

import pytest

from .stage import Stage


@pytest.fixture
def stage(runner: asyncio.Runner) -> Iterator[Stage]:
    """With a process that fires."""
    stage = Stage()
    runner.run(stage.open())
    yield stage
    runner.run(stage.end())
