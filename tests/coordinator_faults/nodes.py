"""Three owners over one memory store and a real etcd of three members, in real time.

The ownership side is the product's; only what it owns for is missing: nothing is loaded and nothing fires here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from tickwheel.adapters.etcd import open_etcd_coordinator
from tickwheel.adapters.memory.peers import MemoryNetwork, MemoryPeers
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.memory.tables import Tables
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.coordinator import Beat
from tickwheel.ports.events import Deposed, Event, MemberLost, MembershipFrozen
from tickwheel.ports.shards import Pair, Taken
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership, OwnershipSettings

PATIENCE_S = 40


class NoIntake:
    """Nothing is loaded."""

    def adopt(self, taken: Sequence[Taken]) -> None:
        pass

    def drop(self, shards: Sequence[int]) -> None:
        pass

    async def quiesce(self, shards: Sequence[int]) -> None:
        pass

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        return {}


DEAD_MS = 1_500
"""Longer than in production: the tests share the machine with others, and a node that gets no CPU for a second is
dead by right."""


class Node:
    """One process of the cluster, as far as ownership goes."""

    def __init__(self, name: str, url: str, tables: Tables, network: MemoryNetwork) -> None:
        clock = SystemClock()
        self.events: list[Event] = []
        self.holdings = Holdings()
        self.coordinator = open_etcd_coordinator(url, clock)
        self.peers = MemoryPeers(network)
        self.ownership = Ownership(
            store=MemoryStore(clock, tables),
            coordinator=self.coordinator,
            peers=self.peers,
            holdings=self.holdings,
            intake=NoIntake(),
            clock=clock,
            randomness=SystemRandomness(),
            events=self,
            note=NodeNote(name=name),
            settings=OwnershipSettings(dead_ms=DEAD_MS),
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def told(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def shards(self) -> Sequence[int]:
        return self.holdings.shards()

    @property
    def is_frozen(self) -> bool:
        """Whether membership is frozen, by the last event about it."""
        frozen = [event.frozen for event in self.events if isinstance(event, MembershipFrozen)]
        return bool(frozen) and frozen[-1]

    def sees_all_alive(self, count: int) -> bool:
        """Whether it knows so many others and thinks all of them alive."""
        members = self.ownership.members()
        return len(members) == count and all(member.standing.value == "alive" for member in members)

    async def kill(self) -> None:
        """Its loops end where they are; its beats stay in etcd."""
        await self.ownership.stop()
        await self.peers.aclose()
        await self.coordinator.aclose()


class Cluster:
    """The nodes; each is connected to all members of etcd, but begins with another one."""

    def __init__(self, url: str) -> None:
        scheme, servers = url.split("://")
        rotated = servers.split(",")
        self._tables, self._network = Tables(), MemoryNetwork()
        self._observer = open_etcd_coordinator(url, SystemClock())
        self.nodes: list[Node] = []
        for number, name in enumerate(("a", "b", "c")):
            mine = rotated[number:] + rotated[:number]
            self.nodes.append(Node(name, f"{scheme}://{','.join(mine)}", self._tables, self._network))

    async def __aenter__(self) -> Self:
        for node in self.nodes:
            await node.ownership.start()
        await wait_until(self._is_settled, "every shard is held and everybody is seen alive")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            await node.kill()
        await self._observer.aclose()

    async def kill(self, node: Node) -> None:
        self.nodes.remove(node)
        await node.kill()

    def epochs(self) -> list[tuple[int, str | None]]:
        """What the store says about each shard: any change of owner shows here for ever."""
        return [(state.epoch, state.owner) for state in self._tables.ownership.states()]

    async def beat_on(self, beats: int) -> None:
        """Wait until each node has beaten so many times more, as it is read from etcd."""
        counters = {name: beat.counter for name, beat in (await self._read()).items()}

        async def have_risen() -> bool:
            now = await self._read()
            return all(
                node.ownership.incarnation in now
                and now[node.ownership.incarnation].counter >= counters[node.ownership.incarnation] + beats
                for node in self.nodes
            )

        await wait_until_async(have_risen, f"everybody has beaten {beats} times more")

    async def _read(self) -> Mapping[str, Beat]:
        while True:
            try:
                return await self._observer.members()
            except ConnectionError:
                await asyncio.sleep(0.02)

    def accusations(self) -> list[Event]:
        """Everything that anybody said about anybody's death."""
        return [event for node in self.nodes for event in [*node.told(MemberLost), *node.told(Deposed)]]

    def all_see_all(self) -> bool:
        return all(not node.is_frozen and node.sees_all_alive(len(self.nodes) - 1) for node in self.nodes)

    def all_held(self) -> bool:
        return sum(len(node.shards) for node in self.nodes) == SHARD_COUNT and all(n.shards for n in self.nodes)

    def _is_settled(self) -> bool:
        return self.all_held() and self.all_see_all()


async def wait_until(predicate: Callable[[], bool], why: str) -> None:
    """Poll a condition that a real process brings about."""
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain until {why}"
        await asyncio.sleep(0.02)


async def wait_until_async(predicate: Callable[[], Awaitable[bool]], why: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await predicate():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain until {why}"
        await asyncio.sleep(0.02)
