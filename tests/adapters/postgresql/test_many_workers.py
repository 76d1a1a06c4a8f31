"""Workers that come in crowds: what they write does not hold up what keeps the node a node."""

import asyncio

import psycopg

from tickwheel.adapters.postgresql.store import PostgresqlStore
from tickwheel.ports.workers import WorkerNote

from ...conformance.store.arena import Arena

PATIENCE_SECONDS = 3


async def test_sessions_that_are_slow_to_write_keep_no_node_from_its_shards(arena: Arena, url: str) -> None:
    note = WorkerNote(name="w", handlers=("work",), slots=1)
    assert isinstance(arena.store, PostgresqlStore)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("LOCK TABLE tickwheel.workers IN ACCESS EXCLUSIVE MODE")
        coming = [asyncio.create_task(arena.store.enlist_worker(f"http-{n}", note)) for n in range(20)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert len(await arena.store.list_shards()) == 256
        assert not any(task.done() for task in coming)
        await other.rollback()
    await asyncio.gather(*coming)
    assert len(await arena.store.workers()) == 20
