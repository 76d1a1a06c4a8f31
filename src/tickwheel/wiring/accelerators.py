"""The caches that save the store some work, from the settings. Each is off unless its address is given."""

import secrets

from tickwheel.config import Settings
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import KeyedStore
from tickwheel.ports.queue import Queue
from tickwheel.services.known_keys import KnownKeys
from tickwheel.services.remote.leased_queue import LeasedQueue
from tickwheel.wiring.extras import require


def with_brief_leases(queue: Queue, settings: Settings, clock: Clock) -> Queue:
    """The queue as workers are to use it. Raises `ConfigError`; sends nothing yet."""
    if not settings.lease_cache:
        return queue
    require("redis", "lease_cache")
    from tickwheel.adapters.redis.brief_leases import open_redis_brief_leases

    holder = secrets.token_hex(4)
    leases = open_redis_brief_leases(settings.lease_cache, clock, cluster=settings.cluster, holder=holder)
    return LeasedQueue(queue, leases, clock)


def open_known_keys(settings: Settings, store: KeyedStore, clock: Clock) -> KnownKeys | None:
    """What is asked before an insert. Raises `ConfigError`; sends nothing yet."""
    if not settings.key_cache:
        return None
    require("redis", "key_cache")
    from tickwheel.adapters.redis.keys import open_redis_keys

    return KnownKeys(store, open_redis_keys(settings.key_cache, clock, cluster=settings.cluster), clock)
