"""A store in a folder of its own, and what tests look at beside the port."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tickwheel.adapters.sqlite import SqliteStore, open_sqlite_store
from tickwheel.testing.virtual_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def store(folder: Path, clock: VirtualClock) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite_store(folder, clock)
    yield store
    await store.aclose()
