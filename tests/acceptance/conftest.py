"""Nodes on SQLite, in a folder of the test's own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .node import Node

MakeNode = Callable[..., AbstractAsyncContextManager[Node]]


@pytest.fixture
def node(tmp_path: Path) -> MakeNode:
    """`async with node(at="2026-10-01T14:02:00Z") as world`: a node of the test's own, then and there."""

    @asynccontextmanager
    async def running(**settings: Any) -> AsyncIterator[Node]:
        world = await Node(tmp_path / "data", **settings).open()
        try:
            yield world
        finally:
            await world.close()

    return running
