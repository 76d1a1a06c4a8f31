"""The buffer for far timers, from the settings."""

import secrets

from tickwheel.config import Settings
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.clock import Clock
from tickwheel.wiring.extras import require


def open_buffer(settings: Settings, clock: Clock) -> Buffer | None:
    """None where none is set; sends nothing yet. Raises `ConfigError`, also where the driver is not installed."""
    if not settings.buffer:
        return None
    require("redis", "buffer")
    from tickwheel.adapters.redis.buckets import open_redis_buckets

    owner = secrets.token_hex(4)  # what a process put there is read by that process only
    return open_redis_buckets(settings.buffer, clock, cluster=settings.cluster, owner=owner)
