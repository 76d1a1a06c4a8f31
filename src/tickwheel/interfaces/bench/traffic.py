"""A steady rate of webhooks, created through all nodes that are open, well before they are due.

Each node gets its part of every slice on a connection of its own. A node gives new jobs ids in shards that it
holds, so the jobs that went through a node tell which shards that were.
"""

import http.client
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from tickwheel.domain.ids import parse_job_id, shard_of
from tickwheel.interfaces.bench.detailed_sink import job_key
from tickwheel.interfaces.bench.poster import webhook_jobs
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.ports.clock import Clock

SLICE_MS: Final = 100
LEAD_MS: Final = 4_000
"""Jobs are created this long before they are due; no fault that is measured may last longer."""
TIMEOUT_S: Final = 10
HANG_UP: Final = b""


@dataclass
class Created:
    """What one node acknowledged: a job's key, its shard, when it is due."""

    keys: list[int] = field(default_factory=list)
    shards: list[int] = field(default_factory=list)
    due_ms: list[int] = field(default_factory=list)


class Traffic:
    """Runs from `start` to `end`. `failures` are requests that an open node did not answer with success."""

    def __init__(self, ports: Sequence[int], endpoint: str, rate: int, clock: Clock) -> None:
        self._ports, self._endpoint, self._rate, self._clock = ports, endpoint, rate, clock
        self.created = [Created() for _ in ports]
        self.failures: list[str] = []
        self.requests = 0
        self.late_keys: list[int] = []
        """Jobs that were acknowledged so late that they can't show anything but that they arrive."""
        self._open = set(range(len(ports)))
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._queues: list[queue.Queue[bytes | None]] = [queue.Queue() for _ in ports]
        self._workers = [threading.Thread(target=self._post_all, args=(n,)) for n in range(len(ports))]
        self._feeder = threading.Thread(target=self._feed)

    def start(self) -> None:
        """The first job is due `LEAD_MS` from now."""
        for thread in (*self._workers, self._feeder):
            thread.start()

    def end(self) -> None:
        """No more jobs; returns when all requests are answered."""
        self._over.set()
        self._feeder.join()
        for waiting in self._queues:
            waiting.put(None)
        for worker in self._workers:
            worker.join()

    def leave(self, node: int) -> None:
        """As a load balancer does: send it nothing any more, and wait for what is under way."""
        with self._lock:
            self._open.discard(node)
        self._queues[node].put(HANG_UP)
        self._queues[node].join()

    def return_to(self, node: int) -> None:
        """It takes requests again."""
        with self._lock:
            self._open.add(node)

    def create(self, node: int, path: str, due_ms: Sequence[int]) -> None:
        """Some jobs of one's own through that node; wait for `leave` or `end` to know them created."""
        self._queues[node].put(webhook_jobs(self._endpoint.replace("/hook", path), due_ms, PAYLOAD))

    def _feed(self) -> None:
        from_ms = self._clock.now_ms() + LEAD_MS
        while not self._over.wait(max(0, from_ms - LEAD_MS - self._clock.now_ms()) / 1000):
            count = self._rate * SLICE_MS // 1000
            due = from_ms + np.arange(count) * SLICE_MS // count
            with self._lock:
                nodes = sorted(self._open)
                for turn, node in enumerate(nodes):
                    part = due[turn :: len(nodes)].tolist()
                    self._queues[node].put(webhook_jobs(self._endpoint, part, PAYLOAD))
            from_ms += SLICE_MS

    def _post_all(self, node: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[node], timeout=TIMEOUT_S)
        while (body := self._queues[node].get()) is not None:
            try:
                if body == HANG_UP:
                    connection.close()
                else:
                    self._post(connection, node, body)
            except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
                self.failures.append(f"node {node}: {type(error).__name__}: {error}")
                connection.close()
            finally:
                self._queues[node].task_done()
        connection.close()

    def _post(self, connection: http.client.HTTPConnection, node: int, body: bytes) -> None:
        self.requests += 1
        connection.request("POST", "/v1/jobs/batch", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status not in (200, 201):
            text = answer[:200].decode(errors="replace")
            self.failures.append(f"node {node} answered {response.status}: {text}")
            return
        due = [job["run_at_epoch_ms"] for job in msgspec.json.decode(body)]
        ids = [parse_job_id(item["job_id"]) for item in msgspec.json.decode(answer)["results"]]
        created, in_time_ms = self.created[node], self._clock.now_ms() + SLICE_MS
        for job_id, due_ms in zip(ids, due, strict=True):
            if due_ms < in_time_ms:
                self.late_keys.append(job_key(job_id))
                continue
            created.keys.append(job_key(job_id))
            created.shards.append(shard_of(job_id))
            created.due_ms.append(due_ms)
