"""What goes wrong in a story, one thing after another and often two at a time."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from tickwheel.testing.model import ModelDatabase

from .coordination import Coordination
from .nodes import Node
from .workers import SimQueue, SimWorker

LONGEST_STOP_MS: Final = 60_000


class Scene(Protocol):
    """The cluster as faults see it."""

    database: ModelDatabase
    coordination: Coordination
    nodes: list[Node]
    workers: list[SimWorker]
    queue: SimQueue
    has_workers: bool

    def start_worker(self, name: str) -> SimWorker: ...

    def start_node(self, name: str) -> Node: ...

    def background(self, work: Awaitable[None]) -> None: ...

    async def sleep_ms(self, length_ms: int) -> None: ...


class Faults:
    """Each `strike` is one fault; it heals by itself. `met` counts them."""

    def __init__(self, rng: random.Random, scene: Scene) -> None:
        self._rng, self._scene = rng, scene
        self.met: Counter[str] = Counter()

    def strike(self) -> None:
        """Let something go wrong."""
        kinds = [*self._kinds, *self._worker_kinds] if self._scene.has_workers else self._kinds
        (fault,) = self._rng.choices([fault for fault, _ in kinds], [weight for _, weight in kinds])
        name = fault(self)
        if name is not None:
            self.met[name] += 1

    def _any(self, *, running: bool = True) -> Node | None:
        nodes = [node for node in self._scene.nodes if node.process.alive]
        if running:
            nodes = [node for node in nodes if not node.process.is_stopped]
        return self._rng.choice(nodes) if nodes else None

    def _length_ms(self, *lengths: int) -> int:
        return self._rng.randrange(*self._rng.choice([(length // 2, length) for length in lengths]))

    def _later(self, length_ms: int, act: Callable[[], object]) -> None:
        async def wait() -> None:
            await self._scene.sleep_ms(length_ms)
            act()

        self._scene.background(wait())

    def _kill(self) -> str | None:
        node = self._any(running=False)
        if node is None:
            return None
        node.kill()
        self._scene.nodes.remove(node)
        self._later(self._rng.choice((0, 1, 300, 1_500, 4_000)), lambda: self._scene.start_node(node.name))
        return "killed"

    def _stop(self) -> str | None:
        node = self._any()
        if node is None:
            return None
        node.stop()
        self._later(self._length_ms(600, 1_200, 3_000, 8_000, LONGEST_STOP_MS), node.go_on)
        return "stopped"

    def _stop_and_replace(self) -> str | None:
        node = self._any()
        if node is None:
            return None
        node.stop()
        self._scene.start_node(node.name)
        self._later(self._length_ms(1_000, 5_000), node.go_on)
        self._later(self._length_ms(10_000, 14_000), lambda: self._retire(node))
        return "second incarnation beside a stopped one"

    def _retire(self, node: Node) -> None:
        node.kill()
        if node in self._scene.nodes:
            self._scene.nodes.remove(node)

    def _cut_store(self) -> str | None:
        node = self._any()
        if node is None:
            return None
        node.process.reaches_store = False

        def heal() -> None:
            node.process.reaches_store = True

        self._later(self._length_ms(300, 1_500, 4_000), heal)
        return "cut off from the store"

    def _cut_coordinator(self) -> str | None:
        node = self._any()
        if node is None:
            return None
        node.process.reaches_coordinator = False

        def heal() -> None:
            node.process.reaches_coordinator = True

        self._later(self._length_ms(300, 1_500, 4_000), heal)
        return "cut off from the coordinator"

    def _coordinator_away(self) -> str | None:
        coordination = self._scene.coordination
        if not coordination.is_up:
            return None
        coordination.is_up = False
        forgets = self._rng.random() < 0.4

        def heal() -> None:
            coordination.is_up = True
            if forgets:
                coordination.forget()

        self._later(self._length_ms(300, 1_500, 3_000), heal)
        return "coordinator lost its data" if forgets else "coordinator away"

    def _crash_store(self) -> str | None:
        database = self._scene.database
        if not database.is_up:
            return None
        database.crash()
        self._later(self._length_ms(2, 200, 2_000), database.restart)
        return "store crashed"

    def _skew(self) -> str | None:
        node = self._any(running=False)
        if node is None:
            return None
        node.clock.skew_ms = self._rng.choice((-3_000, -400, -30, 0, 30, 400, 3_000))
        return "clock skewed"

    def _shut_down(self) -> str | None:
        node = self._any()
        if node is None or len([node for node in self._scene.nodes if node.answers]) < 2:
            return None

        async def act() -> None:
            await node.shut_down()
            if node in self._scene.nodes:
                self._scene.nodes.remove(node)
                self._scene.start_node(node.name)

        self._scene.background(act())
        return "planned stop"

    def _any_worker(self) -> SimWorker | None:
        workers = [w for w in self._scene.workers if w.process.alive and not w.process.is_stopped]
        return self._rng.choice(workers) if workers else None

    def _kill_worker(self) -> str | None:
        worker = self._any_worker()
        if worker is None:
            return None
        worker.kill()
        self._scene.workers.remove(worker)
        self._later(self._rng.choice((0, 300, 1_500)), lambda: self._scene.start_worker(worker.name))
        return "worker killed"

    def _stop_worker(self) -> str | None:
        worker = self._any_worker()
        if worker is None:
            return None
        worker.stop()
        self._later(self._length_ms(600, 3_000, 8_000), worker.go_on)
        return "worker stopped"

    def _cut_worker(self) -> str | None:
        worker = self._any_worker()
        if worker is None:
            return None
        worker.process.reaches_store = False

        def heal() -> None:
            worker.process.reaches_store = True

        self._later(self._length_ms(300, 1_500, 5_000), heal)
        return "worker cut off"

    def _drain_worker(self) -> str | None:
        worker = self._any_worker()
        if worker is None:
            return None

        async def act() -> None:
            await worker.shut_down()
            if worker in self._scene.workers:
                self._scene.workers.remove(worker)
                self._scene.start_worker(worker.name)

        self._scene.background(act())
        return "worker drained"

    def _flush_queue(self) -> str | None:
        self._scene.queue.flush()
        return "queue lost everything"

    def _queue_away(self) -> str | None:
        queue = self._scene.queue
        if not queue.is_up:
            return None
        queue.is_up = False

        def heal() -> None:
            queue.is_up = True

        self._later(self._length_ms(300, 2_000), heal)
        return "queue away"

    _worker_kinds: Sequence[tuple[Callable[["Faults"], str | None], float]] = (
        (_kill_worker, 0.2),
        (_stop_worker, 0.15),
        (_cut_worker, 0.1),
        (_drain_worker, 0.08),
        (_flush_queue, 0.12),
        (_queue_away, 0.08),
    )
    _kinds: Sequence[tuple[Callable[["Faults"], str | None], float]] = (
        (_kill, 0.2),
        (_stop, 0.2),
        (_stop_and_replace, 0.06),
        (_cut_store, 0.12),
        (_cut_coordinator, 0.08),
        (_coordinator_away, 0.06),
        (_crash_store, 0.12),
        (_skew, 0.1),
        (_shut_down, 0.06),
    )
