"""The buffer for far timers, from the settings."""

import secrets

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.clock import Clock


def open_buffer(settings: Settings, clock: Clock) -> Buffer | None:
    """None where none is set; sends nothing yet. Raises `ConfigError`, also where the driver is not installed."""
    if not settings.buffer:
        return None
    try:
        from tickwheel.adapters.redis.buckets import open_redis_buckets
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        message = "the Redis driver is not installed: pip install 'tickwheel[redis]'"
        raise ConfigError([FieldProblem("buffer", message)]) from None
    owner = secrets.token_hex(4)  # what a process put there is read by that process only
    return open_redis_buckets(settings.buffer, clock, cluster=settings.cluster, owner=owner)
