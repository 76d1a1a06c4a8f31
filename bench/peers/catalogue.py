"""The peers: which version, on which server, with which settings. One more is an entry here and a small program.

Settings are the best that each project's own pages name for throughput, and the shortest polling interval that it
offers where it polls; `said` puts them into words for the page of benchmarks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

WORKLOADS: Final = ("drain", "ingest", "single", "burst", "steady")
BASELINE: Final = "tickwheel"

NPM: Final[Mapping[str, str]] = {
    "bullmq": "6.7.0",
    "graphile-worker": "0.18.0",
    "ioredis": "5.11.1",
    "pg": "8.23.1",
    "pg-boss": "12.38.0",
}
PYPI: Final[Mapping[str, str]] = {
    "asyncpg": "0.32.0",
    "celery": "5.7.0",
    "pgqueuer": "1.6.0",
    "procrastinate": "3.10.0",
    "psycopg[binary,pool]": "3.3.9",
    "redis": "8.1.0",
    "uvloop": "0.23.0",
}
NODE: Final = "24.22.3"
GO: Final[Mapping[str, str]] = {
    "github.com/jackc/pgx/v5": "5.11.0",
    "github.com/riverqueue/river": "0.51.2",
    "github.com/riverqueue/river/riverdriver/riverpgxv5": "0.51.2",
}
MAVEN: Final[Mapping[str, str]] = {
    "com.github.kagkarlsson:db-scheduler": "16.12.0",
    "com.google.code.gson:gson": "2.15.0",
    "com.zaxxer:HikariCP": "7.1.0",
    "org.postgresql:postgresql": "42.7.14",
    "org.slf4j:slf4j-api": "2.0.20",
    "org.slf4j:slf4j-simple": "2.0.20",
}


class Runtime(Enum):
    """What runs a peer's program."""

    TICKWHEEL = "tickwheel"
    NODE = "node"
    PYTHON = "python"
    GO = "go"
    JAVA = "java"


class Server(Enum):
    """Where it keeps its jobs."""

    POSTGRESQL = "PostgreSQL"
    REDIS_EVERYSEC = "Redis, fsync each second"
    REDIS_ALWAYS = "Redis, fsync always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """`shares`: of which workloads it takes the n-th part of the jobs, as all of them would need minutes.

    `lead`: times the usual lead of burst, for those that need long to create its jobs.
    """

    name: str
    title: str
    runtime: Runtime
    server: Server
    said: str
    package: str = ""
    program: str = ""
    batch: int = 1_000
    workers: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[str, int] = field(default_factory=dict)
    lead: int = 1
    workloads: tuple[str, ...] = WORKLOADS

    def share(self, workload: str) -> int:
        """1 where it takes all jobs."""
        return self.shares.get(workload, 1)


_GRAPHILE: Final = {"concurrency": 24, "local_queue": 500, "batch_delay_ms": 0, "poll_ms": 100}
_GRAPHILE_SAID: Final = (
    "`concurrentJobs` 24, `maxPoolSize` 25, `localQueue.size` 500, `completeJobBatchDelay` and"
    " `failJobBatchDelay` 0, `pollInterval` 100 ms, `addJobs` of 1,000"
)
_BULLMQ_SAID: Final = "2 worker processes, `concurrency` 100, `removeOnComplete`, `addBulk` of 1,000"

PEERS: Final = (
    Peer(
        name=BASELINE,
        title="Tickwheel",
        runtime=Runtime.TICKWHEEL,
        server=Server.POSTGRESQL,
        said="`handler_slots` 4,096; runs and timelines kept; jobs created over HTTP, batches of 1,000",
    ),
    Peer(
        name="graphile-worker",
        title="graphile-worker, 1 worker",
        runtime=Runtime.NODE,
        server=Server.POSTGRESQL,
        package="graphile-worker",
        program="graphile_worker.mjs",
        settings=_GRAPHILE,
        shares={"single": 4},
        said=f"{_GRAPHILE_SAID}; rows deleted at completion",
    ),
    Peer(
        name="graphile-worker-2",
        title="graphile-worker, 2 workers",
        runtime=Runtime.NODE,
        server=Server.POSTGRESQL,
        package="graphile-worker",
        program="graphile_worker.mjs",
        workers=2,
        settings=_GRAPHILE,
        workloads=("drain", "burst"),
        said="the same in two processes",
    ),
    Peer(
        name="pg-boss",
        title="pg-boss",
        runtime=Runtime.NODE,
        server=Server.POSTGRESQL,
        package="pg-boss",
        program="pg_boss.mjs",
        settings={"batch": 1_000, "concurrency": 2, "poll_s": 0.5},
        said="`batchSize` 1,000, `localConcurrency` 2, `burstWhenBatchFull`, `pollingIntervalSeconds` 0.5 (its"
        " minimum), `insert` of 1,000; completed rows kept",
    ),
    Peer(
        name="river",
        title="River",
        runtime=Runtime.GO,
        server=Server.POSTGRESQL,
        package="github.com/riverqueue/river",
        program="river",
        settings={"workers": 2_000, "cooldown_ms": 1, "poll_ms": 1},
        said="`MaxWorkers` 2,000, `FetchCooldown` and `FetchPollInterval` 1 ms (their minimum), its"
        " batch completer, `InsertManyFast` of 1,000; completed rows kept; scheduled jobs are made available by"
        " its leader each 5 s, which can't be set",
    ),
    Peer(
        name="db-scheduler",
        title="db-scheduler",
        runtime=Runtime.JAVA,
        server=Server.POSTGRESQL,
        package="com.github.kagkarlsson:db-scheduler",
        program="DbScheduler",
        settings={"threads": 20, "lower": 4, "upper": 20, "poll_ms": 100},
        shares={"drain": 8},
        said="`pollUsingLockAndFetch(4, 20)` with 20 threads, as on its page on performance, `pollingInterval`"
        " 100 ms, `enableImmediateExecution`, `GsonSerializer`, HikariCP, `reWriteBatchedInserts`, `scheduleBatch`"
        " of 1,000; rows deleted at completion",
    ),
    Peer(
        name="pgqueuer",
        title="PgQueuer",
        runtime=Runtime.PYTHON,
        server=Server.POSTGRESQL,
        package="pgqueuer",
        program="pgqueuer_peer",
        workers=2,
        settings={"batch": 1_000, "consumers": 1},
        shares={"drain": 2, "single": 4},
        said="2 worker processes, asyncpg and uvloop, `batch_size` 1,000, `durable` tables, `enqueue` of 1,000;"
        " rows moved to its log at completion",
    ),
    Peer(
        name="procrastinate",
        title="Procrastinate",
        runtime=Runtime.PYTHON,
        server=Server.POSTGRESQL,
        package="procrastinate",
        program="procrastinate_peer",
        workers=2,
        settings={"concurrency": 20, "poll_s": 0.1},
        shares={"drain": 40, "ingest": 4, "single": 4, "burst": 10},
        said="2 worker processes, uvloop, `concurrency` 20, `fetch_job_polling_interval` 0.1 s, `delete_jobs`"
        " successful, `batch_defer` of 1,000",
    ),
    Peer(
        name="bullmq",
        title="BullMQ, fsync each second",
        runtime=Runtime.NODE,
        server=Server.REDIS_EVERYSEC,
        package="bullmq",
        program="bullmq.mjs",
        workers=2,
        settings={"concurrency": 100},
        shares={"drain": 4, "ingest": 4},
        said=f"{_BULLMQ_SAID}; up to a second of acknowledged jobs is lost with the machine",
    ),
    Peer(
        name="bullmq-always",
        title="BullMQ, fsync always",
        runtime=Runtime.NODE,
        server=Server.REDIS_ALWAYS,
        package="bullmq",
        program="bullmq.mjs",
        workers=2,
        settings={"concurrency": 100},
        shares={"drain": 4, "ingest": 4},
        workloads=("drain", "ingest", "single"),
        said="the same, as durable as the others",
    ),
    Peer(
        name="celery",
        title="Celery, fsync each second",
        runtime=Runtime.PYTHON,
        server=Server.REDIS_EVERYSEC,
        package="celery",
        program="celery_peer",
        workers=2,
        settings={"pool": "solo", "concurrency": 1, "prefetch": 256},
        shares={"drain": 40, "ingest": 20, "burst": 40, "steady": 10},
        lead=2,
        said="2 workers with the solo pool, `worker_prefetch_multiplier` 256, `task_acks_late`,"
        " `task_ignore_result`; it has no call for a batch, and starts ten due `eta` tasks per turn of its loop, a"
        " second apart when nothing arrives",
    ),
)


def find_peer(name: str) -> Peer:
    """The peer of that name; ValueError with the known names."""
    for peer in PEERS:
        if peer.name == name:
            return peer
    raise ValueError(f"no peer {name!r}; known: {', '.join(peer.name for peer in PEERS)}")


def version_of(peer: Peer) -> str:
    """The pinned version; empty for Tickwheel, which is this checkout."""
    return {**NPM, **PYPI, **GO, **MAVEN}.get(peer.package, "")
