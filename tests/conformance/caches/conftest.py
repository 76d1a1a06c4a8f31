"""Brief leases of two holders, and caches of keys: in memory, on a Redis, on a Redis Cluster."""

from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pytest

from tickwheel.adapters.memory.brief_leases import MemoryBriefLeases
from tickwheel.adapters.memory.keys import MemoryKeys
from tickwheel.adapters.redis.brief_leases import open_redis_brief_leases
from tickwheel.adapters.redis.keys import open_redis_keys
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.columns import Rows
from tickwheel.ports.brief_leases import BriefLeases
from tickwheel.ports.keys import KeyCache
from tickwheel.ports.queue import HINT

from ...servers.redis import shared_redis, shared_redis_cluster

KINDS = ("memory", "redis", "redis_cluster")
MANY = 60
"""Touches all masters, so that no test seems to leave connections behind."""


class Two(NamedTuple):
    """Two workers' leases."""

    a: BriefLeases
    b: BriefLeases


def hints(count: int, *, fence: int = 1) -> Rows:
    rows = np.zeros(count, dtype=HINT)
    rows["scheduled_ms"], rows["fence"] = np.arange(count), fence
    return rows


def url_of(kind: str) -> str:
    return shared_redis().url if kind == "redis" else shared_redis_cluster().url


@pytest.fixture(params=KINDS)
async def leases(request: pytest.FixtureRequest) -> AsyncIterator[Two]:
    clock, cluster, held = SystemClock(), f"c{uuid4().hex[:12]}", dict[bytes, tuple[str, int]]()
    two = Two(
        *(
            MemoryBriefLeases(clock, holder, held)
            if request.param == "memory"
            else open_redis_brief_leases(url_of(request.param), clock, cluster=cluster, holder=holder)
            for holder in ("a", "b")
        )
    )
    for one in two:
        await one.release(hints(MANY))
    yield two
    for one in two:
        await one.aclose()


@pytest.fixture(params=KINDS)
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[KeyCache]:
    cluster = f"c{uuid4().hex[:12]}"
    cache: KeyCache = (
        MemoryKeys()
        if request.param == "memory"
        else open_redis_keys(url_of(request.param), SystemClock(), cluster=cluster)
    )
    await cache.seen([("t", str(number)) for number in range(MANY)])
    yield cache
    await cache.aclose()
