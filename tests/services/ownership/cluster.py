"""Several nodes' ownership sides over one memory store and one coordinator, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tickwheel.adapters.memory.coordinator import MemoryCoordinator
from tickwheel.adapters.memory.peers import MemoryNetwork, MemoryPeers
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.coordinator import Beat
from tickwheel.ports.events import Event
from tickwheel.ports.shards import HeldPair, Pair, ShardState, Snapshot, Taken
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

E = TypeVar("E")
LAPSE_MS = 2_000
PAIR = Pair(1_000, Snapshot("10:10:"))


class NodeClock:
    """A node's own clock: its wall time may be off, and while it is stopped none of its sleeps ends."""

    def __init__(self, clock: VirtualClock, skew_ms: int = 0) -> None:
        self._clock, self.skew_ms = clock, skew_ms
        self._runs = asyncio.Event()
        self._runs.set()

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def sleep_ms(self, length_ms: int) -> None:
        await self._clock.sleep_ms(length_ms)
        await self._runs.wait()

    def stop(self) -> None:
        """SIGSTOP."""
        self._runs.clear()

    def resume(self) -> None:
        """SIGCONT."""
        self._runs.set()


class NodeStore(MemoryStore):
    """One node's connection to the store, which can be cut, and can lose answers."""

    away = False
    loses_answer_of: str | None = None

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("cut")

    async def now_ms(self) -> int:
        self._check()
        return await super().now_ms()

    async def enlist(self, incarnation: str) -> None:
        self._check()
        await super().enlist(incarnation)

    async def deposed(self, incarnations: Sequence[str]) -> Sequence[str]:
        self._check()
        return await super().deposed(incarnations)

    async def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        self._check()
        await super().depose(incarnation, proved_dead=proved_dead)

    async def list_shards(self) -> Sequence[ShardState]:
        self._check()
        return await super().list_shards()

    async def take(self, incarnation: str, seen: Mapping[int, int]) -> Sequence[Taken]:
        self._check()
        taken = await super().take(incarnation, seen)
        if self.loses_answer_of == "take":
            self.loses_answer_of = None
            raise OutcomeUnknown("cut while taking")
        return taken

    async def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        self._check()
        if self.loses_answer_of == "release":
            self.loses_answer_of = None
            raise StoreUnavailable("cut before the release")
        await super().release(incarnation, held)

    async def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> Sequence[int]:
        self._check()
        return await super().store_pairs(incarnation, pairs)


class NodeCoordinator:
    """One node's connection to the coordinator, which can be cut."""

    def __init__(self, coordinator: MemoryCoordinator) -> None:
        self._coordinator = coordinator
        self.away = False
        self.old_view: Mapping[str, Beat] | None = None  # what it shows instead of the latest beats

    def _check(self) -> None:
        if self.away:
            raise ConnectionError("no coordinator")

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        self._check()
        await self._coordinator.beat(incarnation, counter, payload)

    async def members(self) -> Mapping[str, Beat]:
        self._check()
        return await self._coordinator.members() if self.old_view is None else self.old_view

    async def leave(self, incarnation: str) -> None:
        self._check()
        await self._coordinator.leave(incarnation)

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        self._check()
        return await self._coordinator.acquire_lock(name, incarnation)

    async def release_lock(self, name: str, incarnation: str) -> None:
        self._check()
        await self._coordinator.release_lock(name, incarnation)

    async def lock_holder(self, name: str) -> str | None:
        self._check()
        return await self._coordinator.lock_holder(name)

    async def aclose(self) -> None:
        """The coordinator itself stays."""


class FakeIntake:
    """Notes what it is told; a claim that is under way takes `claim_ms`."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.claim_ms = 5
        self.stopped: set[int] = set()
        self.loaded: dict[int, int] = {}
        self.adopted: list[Taken] = []
        self.acts: list[tuple[str, tuple[int, ...]]] = []

    def adopt(self, taken: Sequence[Taken]) -> None:
        for one in taken:
            assert self._node.holdings.epochs[one.shard] == one.epoch, "adopted before it was in the holdings"
            self._node.check_alone(one.shard)
            self.loaded[one.shard] = one.epoch
            self.stopped.discard(one.shard)
        self.adopted.extend(taken)
        self.acts.append(("adopt", tuple(one.shard for one in taken)))

    def drop(self, shards: Sequence[int]) -> None:
        for shard in shards:
            assert self._node.holdings.epochs[shard] < 0, "dropped while it is in the holdings"
            del self.loaded[shard]
        self.acts.append(("drop", tuple(shards)))

    async def quiesce(self, shards: Sequence[int]) -> None:
        self.stopped.update(shards)
        await self._node.clock.sleep_ms(self.claim_ms)
        self.acts.append(("quiesce", tuple(shards)))

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        return dict.fromkeys(shards, PAIR)


class Node:
    """One process."""

    def __init__(self, cluster: "Cluster", name: str, note: NodeNote, seed: int, skew_ms: int) -> None:
        self.cluster, self.name = cluster, name
        self.clock = NodeClock(cluster.clock, skew_ms)
        self.store = NodeStore(self.clock, cluster.tables)
        self.coordinator = NodeCoordinator(cluster.coordinator)
        self.peers = MemoryPeers(cluster.network)
        self.holdings, self.intake = Holdings(), FakeIntake(self)
        self.events: list[Event] = []
        self.ownership = Ownership(
            store=self.store,
            coordinator=self.coordinator,
            peers=self.peers,
            holdings=self.holdings,
            intake=self.intake,
            clock=self.clock,
            randomness=SeededRandomness(seed),
            events=self,
            note=note,
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def shards(self) -> set[int]:
        return set(self.holdings.shards())

    @property
    def incarnation(self) -> str:
        return self.ownership.incarnation

    def check_alone(self, shard: int) -> None:
        """Nobody else who may still claim holds this shard in memory."""
        for other in self.cluster.nodes:
            if other is not self and shard in other.shards and shard not in other.intake.stopped:
                assert self.cluster.is_deposed(other.incarnation), f"{shard} is fired by two"

    async def kill(self) -> None:
        """SIGKILL: the loops end where they are, and the port with them."""
        await self.ownership.stop()
        await self.peers.aclose()
        self.cluster.nodes.remove(self)

    async def shut_down(self) -> None:
        """A planned stop."""
        await self.ownership.hand_over(5_000)
        await self.ownership.leave()
        self.cluster.nodes.remove(self)


class Cluster:
    """Nodes over one store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tables = Tables()
        self.coordinator = MemoryCoordinator(self.clock, LAPSE_MS)
        self.network = MemoryNetwork()
        self.nodes: list[Node] = []
        self._seeds = 0
        self._observer = MemoryStore(self.clock, self.tables)

    async def start(self, *names: str, note: NodeNote | None = None, skew_ms: int = 0) -> list[Node]:
        started = []
        for name in names:
            self._seeds += 1
            node = Node(self, name, note or NodeNote(name=name), self._seeds, skew_ms)
            self.nodes.append(node)
            await node.ownership.start()
            started.append(node)
        return started

    async def settled(self, *names: str) -> list[Node]:
        """Start these and wait until they share all shards."""
        nodes = await self.start(*names)
        await self.pass_ms(3_000)
        assert self.is_shared()
        return nodes

    async def pass_ms(self, length_ms: int) -> None:
        await self.clock.advance(length_ms)

    async def until(self, predicate: Callable[[], bool], limit_ms: int) -> int:
        """Let time pass until it holds; gives how long that took."""
        began_ms = self.clock.now_ms()
        while not predicate():
            assert self.clock.now_ms() - began_ms < limit_ms, "it did not come true"
            await self.clock.advance(10)
        return self.clock.now_ms() - began_ms

    def is_shared(self) -> bool:
        """Whether each shard is held by exactly one node, as the store has it."""
        held = [shard for node in self.nodes for shard in node.shards]
        return sorted(held) == list(range(SHARD_COUNT)) and all(
            (state.owner, state.epoch) == (node.incarnation, node.holdings.epochs[state.shard])
            for state in self.states()
            for node in self.nodes
            if state.shard in node.shards
        )

    def states(self) -> list[ShardState]:
        return self.tables.ownership.states()

    def is_deposed(self, incarnation: str) -> bool:
        return not self.tables.ownership.is_enlisted(incarnation)

    def is_dead(self, incarnation: str) -> bool:
        return self.tables.ownership.is_dead(incarnation)

    async def end(self) -> None:
        for node in self.nodes:
            node.clock.resume()
            await node.ownership.stop()


def clustered(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Give the test a cluster, and end within the test what still runs."""

    async def run() -> None:
        cluster = Cluster()
        try:
            await test(cluster)
        finally:
            await cluster.end()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
