"""Membership and ownership with everything real: PostgreSQL rows, TCP links, the machine's clock."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.postgresql.coordinator import PostgresCoordinator
from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.adapters.postgresql.store import PostgresqlStore, open_postgresql_store
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.events import Event
from tickwheel.ports.shards import Pair, Snapshot, Taken
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership

from ...servers.postgresql_databases import (
    copied_database,
    shared_server,
)

PATIENCE_S = 40


async def wait_until(predicate: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {why}"
        await asyncio.sleep(0.01)


class NoTimers:
    """An `Intake` of a node that has no timers."""

    def adopt(self, taken: Sequence[Taken]) -> None:
        self.last = taken

    def drop(self, shards: Sequence[int]) -> None:
        """Nothing is loaded."""

    async def quiesce(self, shards: Sequence[int]) -> None:
        """Nothing is claimed."""

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        return dict.fromkeys(shards, Pair(1_000, Snapshot("10:10:")))


class Node:
    """One node, as far as ownership goes."""

    def __init__(self, url: str, store: PostgresqlStore, clock: SystemClock) -> None:
        self.store, self.events = store, list[Event]()
        self.coordinator = PostgresCoordinator(url)
        self.peers = TcpPeers(host="127.0.0.1", clock=clock)
        self.holdings, self.intake = Holdings(), NoTimers()
        self.ownership = Ownership(
            store=store,
            coordinator=self.coordinator,
            peers=self.peers,
            holdings=self.holdings,
            intake=self.intake,
            clock=clock,
            randomness=SystemRandomness(),
            events=self,
            note=NodeNote(name="node"),
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)

    @property
    def shards(self) -> set[int]:
        return set(self.holdings.shards())

    async def kill(self) -> None:
        """What the end of a process looks like to the others."""
        await self.ownership.stop()
        await self.peers.aclose()

    async def close(self) -> None:
        await self.kill()
        await self.coordinator.aclose()
        await self.store.aclose()


def _migrated(url: str) -> None:
    migrate(url)


def are_shared(*nodes: Node) -> bool:
    return sorted(shard for node in nodes for shard in node.shards) == list(range(SHARD_COUNT))


async def test_three_nodes_share_lose_one_and_part_as_planned() -> None:
    url = shared_server().url(copied_database("migrated", _migrated))
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        nodes = []
        for _ in range(3):
            nodes.append(Node(url, await open_postgresql_store(url, clock), clock))
            stack.push_async_callback(nodes[-1].close)
            await nodes[-1].ownership.start()
        a, b, c = nodes
        await wait_until(lambda: are_shared(a, b, c) and all(node.shards for node in nodes), "all share")
        await wait_until(lambda: sum(node.ownership.leadership.is_leader() for node in nodes) == 1, "one leads")

        await c.kill()
        await wait_until(lambda: are_shared(a, b), "the others take over")
        assert sorted(await a.store.deposed([node.ownership.incarnation for node in nodes])) == [
            c.ownership.incarnation
        ]

        await b.ownership.hand_over(10_000)
        assert not b.shards
        await b.ownership.leave()
        await wait_until(lambda: are_shared(a), "the last one has it all")
        assert all(taken.pair is not None for taken in a.intake.last)
        assert list(await a.coordinator.members()) == [a.ownership.incarnation]
        epochs = [state.epoch for state in await a.store.list_shards()]
        assert epochs == [int(epoch) for epoch in a.holdings.epochs]
