"""Which queue carries work to workers elsewhere."""

from typing import Final

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.config import CLUSTER_SCHEMES, Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Queue
from tickwheel.wiring.extras import require

VISIBLE_AGAIN_MS: Final = 5_000
"""How long a worker has from taking a hint to having begun the run; an owner publishes again after as long."""


def queue_url(settings: Settings) -> str:
    """The queue as it is used: the setting, or a table of the PostgreSQL store, or this process's memory."""
    return settings.queue or (settings.store if settings.clustered else "memory:")


def open_queue(url: str, settings: Settings, clock: Clock) -> Queue:
    """The queue that a URL names; sends nothing yet. Raises `ConfigError`."""
    scheme = url.partition(":")[0]
    if scheme == "memory":
        return MemoryQueue(clock, VISIBLE_AGAIN_MS)
    if scheme in CLUSTER_SCHEMES:
        require("psycopg", "queue")
        from tickwheel.adapters.postgresql.queue import open_postgresql_queue

        return open_postgresql_queue(url, clock, visible_again_ms=VISIBLE_AGAIN_MS)
    if scheme in ("redis", "rediss", "redis+cluster", "rediss+cluster"):
        require("redis", "queue")
        from tickwheel.adapters.redis.queue import open_redis_queue

        return open_redis_queue(url, clock, cluster=settings.cluster, visible_again_ms=VISIBLE_AGAIN_MS)
    raise ConfigError([FieldProblem("queue", f"there is no queue of kind {scheme!r}")])
