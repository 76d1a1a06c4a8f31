"""What is done to the cluster: one fault after another, at random moments, some of them at the same time.

One node at least is left alone at any moment, so that clients always find one (unless the database is away).
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ...servers.cluster import Cluster

KINDS: dict[str, float] = {
    "kill": 5,
    "freeze": 5,
    "cut store": 3,
    "cut all": 3,
    "stop": 3,
    "roll": 1,
    "database kill": 2,
    "database stall": 1,
}


@dataclass
class Woken:
    """A process that went on after it had been frozen."""

    worker: int
    at_ms: int
    slept_s: float
    deposed: bool


@dataclass
class Faults:
    """`run` returns when `seconds` are over and everything is whole again."""

    cluster: Cluster
    seconds: float
    seed: int
    longest_freeze_s: float
    tell: Callable[[str], object]
    met: Counter[str] = field(default_factory=Counter)
    woken: list[Woken] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kinds: dict[str, float] = field(default_factory=lambda: dict(KINDS))

    def run(self) -> None:
        """One long freeze from the start; the others come and go meanwhile."""
        rng = random.Random(self.seed)
        self._busy: set[int] = set()
        self._lock, self._database = threading.Lock(), threading.Lock()
        ends = time.monotonic() + self.seconds
        threads = [self._begin("freeze", 2, self.longest_freeze_s)]
        while (left := ends - time.monotonic()) > 1:
            time.sleep(min(left - 1, rng.uniform(0.3, 2.5)))
            kind = rng.choices(list(self.kinds), list(self.kinds.values()))[0]
            if kind.startswith(("database", "worker", "redis")):
                threads.append(self._spawn(self._guarded, kind, -1, rng.uniform(0.2, 3)))
                continue
            node = self._free_node(rng, all_of_them=kind == "roll")
            if node is not None:
                threads.append(self._begin(kind, node, min(left, rng.uniform(0.5, 8))))
        for thread in threads:
            thread.join()
        self.heal()

    def heal(self) -> None:
        """Everything is whole again."""
        self.cluster.heal_all()

    def _free_node(self, rng: random.Random, *, all_of_them: bool) -> int | None:
        """A node that nothing is done to, while another one stays like that."""
        with self._lock:
            free = [n for n in range(len(self.cluster.nodes)) if n not in self._busy]
        if len(free) < (len(self.cluster.nodes) if all_of_them else 2):
            return None
        return rng.choice(free)

    def _begin(self, kind: str, node: int, for_s: float) -> threading.Thread:
        with self._lock:
            self._busy |= set(range(len(self.cluster.nodes))) if kind == "roll" else {node}
        return self._spawn(self._guarded, kind, node, for_s)

    def _spawn(self, target: Callable[[str, int, float], None], *given: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=given)
        thread.start()
        return thread

    def _guarded(self, kind: str, node: int, for_s: float) -> None:
        self.tell(f"{kind} {'' if node < 0 else node} for {for_s:.1f} s")
        self.met[kind] += 1
        try:
            self._do(kind, node, for_s)
        except Exception as error:  # whatever goes wrong belongs into the verdict
            self.problems.append(f"{kind} {node}: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._busy -= set(range(len(self.cluster.nodes))) if kind == "roll" else {node}

    def _do(self, kind: str, number: int, for_s: float) -> None:
        cluster = self.cluster
        node = cluster.nodes[number]
        if kind == "kill":
            node.kill()
            time.sleep(for_s)
            node.keep_starting()
        elif kind == "freeze":
            self._freeze(number, for_s)
        elif kind in ("cut store", "cut all"):
            (cluster.cut_store if kind == "cut store" else cluster.cut_all)(number)
            time.sleep(for_s)
            cluster.heal(number)
        elif kind == "stop":
            if node.stop() != 0:
                self.problems.append(f"node {number} did not stop cleanly")
            time.sleep(for_s / 2)
            node.keep_starting()
        elif kind == "roll":
            for one in cluster.nodes:
                one.stop()
                one.keep_starting()
        else:
            self._harm_database(kind, for_s)

    def _freeze(self, number: int, for_s: float) -> None:
        node = self.cluster.nodes[number]
        node.freeze()
        time.sleep(for_s)
        with self._database:
            worker = self.cluster.incarnation_number(node)
            deposed = worker is not None and self.cluster.is_deposed(worker)
        at_ms = time.time_ns() // 1_000_000
        node.thaw()
        if worker is not None:
            self.woken.append(Woken(worker, at_ms, for_s, deposed))

    def _harm_database(self, kind: str, for_s: float) -> None:
        with self._database:
            if kind == "database kill":
                self.cluster.server.kill()
                time.sleep(for_s / 2)
                self.cluster.server.start()
            else:
                self.cluster.server.freeze()
                time.sleep(for_s)
                self.cluster.server.thaw()
