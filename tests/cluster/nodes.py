"""Whole nodes in the test's own process, on a real database."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from tickwheel.config import Settings
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.domain.run import RunState
from tickwheel.ports.store import Run
from tickwheel.wiring import Node, open_node

PATIENCE_S = 40
ENDPOINT = "http://127.0.0.1:9/nobody-listens-here"
TENANT = "default"


async def eventually(predicate: Callable[[], Awaitable[bool]], why: str, timeout_s: float = PATIENCE_S) -> None:
    """Return as soon as it holds; an `AssertionError` that says what was waited for, if it never does."""
    deadline = time.monotonic() + timeout_s
    while not await predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {why}"
        await asyncio.sleep(0.05)


class Nodes:
    """`open` as many as the test needs; what still runs at the end is stopped."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.running: list[Node] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in list(self.running):
            await self.stop(node)

    async def open(self, **settings: Any) -> Node:
        """A node that has started."""
        given: dict[str, Any] = {
            "port": 0,
            "allow_loopback": True,
            "log_level": "error",
            "grace_seconds": 1,
        } | settings
        node = await open_node(Settings(store=self.store, **given))
        self.running.append(node)
        await node.start()
        return node

    async def stop(self, node: Node) -> None:
        """As SIGTERM does."""
        self.running.remove(node)
        await node.stop()


def held_by(node: Node) -> Sequence[int]:
    """The shards that the node holds."""
    assert node.cluster is not None
    return node.cluster.holdings.shards()


async def settled(*nodes: Node) -> None:
    """Wait until these nodes hold all shards between them, each its part."""

    async def shared() -> bool:
        counts = [len(held_by(node)) for node in nodes]
        return sum(counts) == 256 and all(counts)

    await eventually(shared, "the shards are shared out")


async def create(node: Node, **fields: Any) -> bytes:
    """Make a job through this node; its id."""
    body = {"target": {"endpoint": ENDPOINT}, "retry_policy": {"max_retries": 0}} | fields
    return (await node.jobs.create(parse_job_request(msgspec.json.encode(body)))).job_id


async def each_second(node: Node, name: str) -> bytes:
    """A job of every second whose runs fail at once."""
    return await create(node, job_name=name, schedule_type="CRON", cron_expression="* * * * * *")


async def runs_of(node: Node, job_id: bytes) -> list[Run]:
    """Latest first."""
    return list((await node.store.list_runs(TENANT, job_id, 1_000, None)).items)


async def fired(node: Node, job_id: bytes) -> list[int]:
    """The instants whose run was started, oldest first."""
    runs = await runs_of(node, job_id)
    return sorted(run.scheduled_ms for run in runs if run.state not in (RunState.SKIPPED, RunState.PAUSED))


async def fired_again(node: Node, job_id: bytes, count: int) -> None:
    """Wait until the job has fired `count` more times: the proof that time passes and timers fire."""
    before = len(await fired(node, job_id))

    async def more() -> bool:
        return len(await fired(node, job_id)) >= before + count

    await eventually(more, f"{count} more runs")
