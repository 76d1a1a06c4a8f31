"""Of two nodes on one database one tells; when it is gone, the other goes on where it was."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.rule import NotificationRule, Webhook
from tickwheel.ports.registry import Act
from tickwheel.wiring import Node

from .nodes import TENANT, Nodes, create, eventually, settled

ACT = Act("test", "notification.put")


@asynccontextmanager
async def receiver(bodies: list[dict[str, Any]]) -> AsyncIterator[int]:
    """Takes every message; gives its port."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        bodies.append(msgspec.json.decode(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def leads(node: Node) -> bool:
    assert node.cluster is not None
    return node.cluster.is_leader()


@pytest.mark.slow
async def test_a_failover_neither_loses_nor_repeats_a_message(blank_postgresql: str) -> None:
    bodies: list[dict[str, Any]] = []
    async with receiver(bodies) as port, Nodes(blank_postgresql) as nodes:
        first, second = await nodes.open(), await nodes.open()
        await settled(first, second)
        rule = NotificationRule(events=(Kind.DEAD_LETTERED,), webhook=Webhook(f"http://127.0.0.1:{port}/"))
        await first.notifying.rules.put(TENANT, "ops", rule, ACT)

        async def told(*names: str) -> bool:
            return [body["data"]["about"] for body in bodies] == list(names)

        await create(second, job_name="one", schedule_type="INSTANT")
        await eventually(lambda: told("one"), "the first failure is told")
        leader = first if leads(first) else second
        other = second if leader is first else first
        await nodes.stop(leader)
        await create(other, job_name="two", schedule_type="INSTANT")
        await eventually(lambda: told("one", "two"), "the second failure is told by the other node")
        await create(other, job_name="one", schedule_type="INSTANT")

        async def held_back() -> bool:
            groups = (await other.store.notice_groups()).bodies
            return any('"waiting"' in body for body in groups.values())

        await eventually(held_back, "the third failure is held back for the quiet time that the first began")
        assert [body["data"]["count"] for body in bodies] == [1, 1]
