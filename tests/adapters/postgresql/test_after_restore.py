"""A restored database: tokens go on rising over what was forgotten, and nothing is taken for resolved."""

import asyncio

import psycopg
import pytest

from tickwheel.adapters.postgresql import open_postgresql_store
from tickwheel.adapters.postgresql.after_restore import after_restore
from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.errors import ConfigError
from tickwheel.ports.shards import HeldPair, Pair


@pytest.fixture
def database(blank_postgresql: str) -> str:
    migrate(blank_postgresql)
    return blank_postgresql


def rows(database: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute(statement.encode()).fetchall()


async def work_a_while(database: str) -> None:
    store = await open_postgresql_store(database, SystemClock())
    try:
        await store.enlist("before")
        taken = await store.take("before", {0: 0, 1: 0})
        pair = Pair(5, await store.take_snapshot())
        assert await store.store_pairs("before", [HeldPair(one.shard, one.epoch, pair) for one in taken]) == []
    finally:
        await store.aclose()


async def test_epochs_rise_further_than_any_lost_takeover(database: str) -> None:
    """D8: a forgotten takeover had its epoch; given out again, two attempts of a job would carry one token."""
    await work_a_while(database)
    await asyncio.to_thread(after_restore, database)
    assert rows(database, "SELECT DISTINCT owner FROM tickwheel.shards") == [(None,)]
    assert rows(database, "SELECT min(epoch), max(epoch) FROM tickwheel.shards") == [(1_024, 1_025)]
    await asyncio.to_thread(after_restore, database)
    assert rows(database, "SELECT min(epoch) FROM tickwheel.shards") == [(2_048,)]


async def test_pairs_are_void_and_nodes_of_before_claim_no_more(database: str) -> None:
    """B7: transaction ids of a copy need not be those of the original, so the next owner loads everything."""
    await work_a_while(database)
    await asyncio.to_thread(after_restore, database)
    assert rows(database, "SELECT count(*) FROM tickwheel.shard_acks") == [(0,)]
    store = await open_postgresql_store(database, SystemClock())
    try:
        assert list(await store.deposed(["before"])) == ["before"]
        await store.enlist("after")
        [taken] = await store.take("after", {0: 1_025})
        assert (taken.epoch, taken.pair) == (1_026, None)
    finally:
        await store.aclose()


async def test_while_a_node_is_connected_it_is_refused(database: str) -> None:
    store = await open_postgresql_store(database, SystemClock())
    try:
        await store.now_ms()
        with pytest.raises(ConfigError, match="stop all of them first"):
            await asyncio.to_thread(after_restore, database)
    finally:
        await store.aclose()
    assert rows(database, "SELECT max(epoch) FROM tickwheel.shards") == [(0,)]


def test_an_older_schema_is_migrated_first(blank_postgresql: str) -> None:
    with pytest.raises(ConfigError, match="tickwheel migrate"):
        after_restore(blank_postgresql)
