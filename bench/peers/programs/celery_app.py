"""The Celery application of the benchmark: acknowledged after the call, no results, large prefetch.

`celery -A bench.peers.programs.celery_app worker` runs it. PEERS_BROKER names Redis, PEERS_FOLDER the
folder in which calls are noted.
"""

import os
import struct
import time
from pathlib import Path

from celery import Celery

app = Celery("bench", broker=os.environ["PEERS_BROKER"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_serializer="json",
    worker_prefetch_multiplier=int(os.environ.get("PEERS_PREFETCH", "128")),
    broker_transport_options={"visibility_timeout": 7200},
    broker_pool_limit=64,
    worker_send_task_events=False,
)
_files: dict[int, int] = {}


def _file() -> int:
    """This process's own file: pool processes are forked from the worker."""
    pid = os.getpid()
    if pid not in _files:
        path = Path(os.environ["PEERS_FOLDER"], f"calls-{pid}.bin")
        _files[pid] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    return _files[pid]


@app.task(name="noop")  # type: ignore[untyped-decorator]  # Celery has no types
def noop(n: int, due_ms: int | None, pad: str) -> None:
    """Note the call."""
    late_ms = 0.0 if due_ms is None else time.time() * 1000 - due_ms
    os.write(_file(), struct.pack("=dd", n, late_ms))
