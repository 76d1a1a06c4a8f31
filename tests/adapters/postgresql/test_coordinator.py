"""The coordinator on PostgreSQL, where its server misbehaves."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from tickwheel.adapters.postgresql.coordinator import PostgresCoordinator
from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.ports.coordinator import Beat

from ...servers.postgresql import PostgresServer

PATIENCE_S = 30


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may break."""
    with PostgresServer() as server:
        migrate(server.url())
        yield server


@pytest.fixture
async def coordinator(server: PostgresServer) -> AsyncIterator[PostgresCoordinator]:
    async with aclosing(PostgresCoordinator(server.url())) as coordinator:
        await beaten(coordinator, "a", 1)
        yield coordinator
        await coordinator.leave("a")


async def beaten(coordinator: PostgresCoordinator, incarnation: str, counter: int) -> None:
    """Beat until it works: a connection that was lost is replaced by the call after the one that failed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await coordinator.beat(incarnation, counter, b"")
        except ConnectionError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_a_crash_of_the_server_empties_the_beats_and_keeps_the_tokens(
    server: PostgresServer, coordinator: PostgresCoordinator
) -> None:
    """Unlogged rows are gone: a reader then does not find its own beat either, and judges nobody."""
    token = await coordinator.acquire_lock("leader", "a")
    assert token is not None
    await beaten(coordinator, "b", 1)
    server.kill()
    with pytest.raises(ConnectionError):
        await coordinator.members()
    server.start()
    await beaten(coordinator, "b", 2)
    assert await coordinator.members() == {"b": Beat(2, b"")}
    assert await coordinator.lock_holder("leader") is None
    again = await coordinator.acquire_lock("leader", "b")
    assert again is not None
    assert again > token
    await coordinator.leave("b")


async def test_a_server_that_hangs_fails_the_beat_within_a_moment(
    server: PostgresServer, coordinator: PostgresCoordinator
) -> None:
    server.freeze()
    try:
        with pytest.raises(ConnectionError):
            await coordinator.beat("a", 2, b"")
        with pytest.raises(ConnectionError):
            await coordinator.members()
    finally:
        server.thaw()
    await beaten(coordinator, "a", 3)
    assert (await coordinator.members())["a"].counter == 3


async def test_of_many_who_ask_at_once_one_gets_the_lock(
    server: PostgresServer, coordinator: PostgresCoordinator
) -> None:
    names = [f"n{number}" for number in range(6)]
    others = [PostgresCoordinator(server.url()) for _ in names]
    try:
        for turn in range(1, 6):
            for other, name in zip(others, names, strict=True):
                await other.beat(name, turn, b"")
            asked = zip(others, names, strict=True)
            tokens = await asyncio.gather(*(other.acquire_lock("race", name) for other, name in asked))
            [winner] = [name for name, token in zip(names, tokens, strict=True) if token is not None]
            assert await coordinator.lock_holder("race") == winner
            assert [token for token in tokens if token is not None] == [turn]
            await coordinator.release_lock("race", winner)
    finally:
        for other, name in zip(others, names, strict=True):
            await other.leave(name)
            await other.aclose()


async def test_a_database_without_the_tables_says_what_to_do(server: PostgresServer) -> None:
    async with aclosing(PostgresCoordinator(server.url(server_database(server)))) as coordinator:
        with pytest.raises(ConnectionError, match="tickwheel migrate"):
            await coordinator.members()


def server_database(server: PostgresServer) -> str:
    server.create_database("empty")
    return "empty"
