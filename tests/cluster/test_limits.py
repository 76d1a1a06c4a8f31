"""Limits of concurrency over two nodes on one PostgreSQL."""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from tickwheel.domain.run import TERMINAL

from .nodes import Nodes, create, eventually, runs_of, settled

JOBS = 40


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Any request, with 200."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def receiver() -> AsyncIterator[dict[str, str]]:
    """A target that answers."""
    async with await asyncio.start_server(_answer, "127.0.0.1", 0) as server:
        yield {"endpoint": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"}


@pytest.mark.slow
@pytest.mark.pitfall(59)
async def test_two_keys_on_an_idle_cluster_add_hardly_any_delay(blank_postgresql: str) -> None:
    limits = [{"key": "a", "limit": 5}, {"key": "b", "limit": 5}]
    delays_ms: dict[bool, list[int]] = {False: [], True: []}
    async with receiver() as target, Nodes(blank_postgresql) as nodes:
        pair = (await nodes.open(), await nodes.open())
        await settled(*pair)
        for number in range(JOBS):
            node, limited = pair[number % 2], number // 2 % 2 == 1
            fields: dict[str, Any] = {"concurrency": limits} if limited else {}
            job_id = await create(node, schedule_type="INSTANT", target=target, **fields)

            async def started(node: Any = node, job_id: bytes = job_id) -> bool:
                return any(run.started_ms for run in await runs_of(node, job_id))

            await eventually(started, "the attempt began")
            [run] = await runs_of(node, job_id)
            assert run.started_ms is not None
            delays_ms[limited].append(run.started_ms - run.scheduled_ms)
    added_ms = statistics.median(delays_ms[True]) - statistics.median(delays_ms[False])
    print(f"added {added_ms} ms: {delays_ms}")
    assert added_ms < 50


@pytest.mark.slow
async def test_one_key_over_two_nodes_is_worked_off_and_never_over_its_limit(blank_postgresql: str) -> None:
    limits = [{"key": "k", "limit": 2}]
    most = 0
    async with receiver() as target, Nodes(blank_postgresql) as nodes:
        pair = (await nodes.open(), await nodes.open())
        await settled(*pair)
        fields: dict[str, Any] = {"schedule_type": "INSTANT", "target": target, "concurrency": limits}
        ids = [await create(pair[number % 2], **fields) for number in range(2 * JOBS)]
        connection = await psycopg.AsyncConnection.connect(nodes.store, autocommit=True)

        async def all_ended() -> bool:
            nonlocal most
            for _ in range(20):
                rows = await connection.execute("SELECT count(*) FROM tickwheel.limit_slots")
                [count] = await rows.fetchone() or [0]
                most = max(most, count)
                await asyncio.sleep(0.005)
            states = [run.state for job_id in ids for run in await runs_of(pair[0], job_id)]
            return len(states) == len(ids) and all(state in TERMINAL for state in states)

        await eventually(all_ended, "all runs of the key have ended")
        assert 1 <= most <= 2
        rows = await connection.execute("SELECT count(*) FROM tickwheel.limit_slots")
        assert await rows.fetchone() == (0,)
        await connection.close()
