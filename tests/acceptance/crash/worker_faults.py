"""What is done to workers and to Redis, beside all that is done to the nodes and to the database."""

import random
import threading
import time
from collections.abc import Callable, Sequence

from ...servers.cluster import Cluster
from ...servers.redis import RedisServer
from ...servers.remote_worker import RemoteWorker
from .faults import KINDS, Faults

WORKER_KINDS = {
    "worker kill": 6,
    "worker freeze": 4,
    "worker stop": 3,
    "redis flush": 3,
    "redis kill": 2,
    "redis stall": 2,
    "redis full": 1,
}
NODE_SHARE = 0.5
"""Of the weight that a fault has where there are no workers."""


class WorkerFaults(Faults):
    """`Faults` of nodes and database, less often, and of workers and Redis."""

    def __init__(
        self,
        cluster: Cluster,
        workers: Sequence[RemoteWorker],
        redis: RedisServer,
        seconds: float,
        seed: int,
        longest_freeze_s: float,
        tell: Callable[[str], object],
    ) -> None:
        super().__init__(cluster, seconds, seed, longest_freeze_s, tell)
        self.kinds = {kind: weight * NODE_SHARE for kind, weight in KINDS.items()} | WORKER_KINDS
        self._workers, self._redis = list(workers), redis
        self._free = list(workers)
        self._choosing, self._at_redis = threading.Lock(), threading.Lock()
        self._rng = random.Random(seed + 1)

    def heal(self) -> None:
        super().heal()
        for worker in self._workers:
            if not worker.runs:
                worker.keep_starting()

    def _do(self, kind: str, number: int, for_s: float) -> None:
        if kind.startswith("worker"):
            self._harm_worker(kind, for_s)
        elif kind.startswith("redis"):
            with self._at_redis:
                self._harm_redis(kind, for_s)
        else:
            super()._do(kind, number, for_s)

    def _harm_worker(self, kind: str, for_s: float) -> None:
        with self._choosing:
            if len(self._free) < 2:
                return
            worker = self._free.pop(self._rng.randrange(len(self._free)))
        try:
            if kind == "worker kill":
                worker.kill()
                time.sleep(for_s)
                worker.keep_starting()
            elif kind == "worker freeze":
                worker.freeze()
                time.sleep(for_s * 4)  # longer than a session now and then
                worker.thaw()
            else:
                if worker.stop() != 0:
                    self.problems.append(f"{worker.name} did not stop cleanly:\n{worker.said()}")
                worker.keep_starting()
        finally:
            with self._choosing:
                self._free.append(worker)

    def _harm_redis(self, kind: str, for_s: float) -> None:
        redis = self._redis
        if kind == "redis flush":
            redis.ask("FLUSHALL")
        elif kind == "redis kill":
            redis.kill()
            time.sleep(for_s)
            redis.start()
        elif kind == "redis stall":
            redis.freeze()
            time.sleep(for_s)
            redis.thaw()
        else:
            redis.ask("CONFIG", "SET", "maxmemory", "1mb")
            time.sleep(for_s)
            redis.ask("CONFIG", "SET", "maxmemory", "0")
