"""Every buffer, empty, on the clock of the system."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tickwheel.adapters.memory.buffer import MemoryBuffer
from tickwheel.adapters.redis.buckets import open_redis_buckets
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import Buffer

from ...servers.redis import shared_redis, shared_redis_cluster

KINDS = ("memory", "redis", "redis_cluster")


@pytest.fixture(params=KINDS)
async def buffer(request: pytest.FixtureRequest) -> AsyncIterator[Buffer]:
    """One of them."""
    buffer = MemoryBuffer() if request.param == "memory" else on_redis(request.param)
    for sub in range(50):  # connects to all masters, so that no test seems to leave connections behind
        await buffer.read(Bucket(0, sub))
    yield buffer
    await buffer.aclose()


def on_redis(kind: str) -> Buffer:
    """Buckets that nobody else has."""
    url = shared_redis().url if kind == "redis" else shared_redis_cluster().url
    return open_redis_buckets(url, SystemClock(), cluster=f"c{uuid4().hex[:12]}", owner="me")
