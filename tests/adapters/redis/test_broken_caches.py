"""A real Redis behind the caches is flushed, killed, stopped, full or stale: outcomes stay, and nobody waits."""

import time
from collections.abc import AsyncIterator

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.brief_leases import RedisBriefLeases
from tickwheel.adapters.redis.keys import RedisKeys
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import HINT, WEBHOOKS, Topic
from tickwheel.ports.store import InsertStatus, NewJob
from tickwheel.services.known_keys import KnownKeys
from tickwheel.services.remote.leased_queue import LeasedQueue

from ...servers.redis import RedisServer
from ...services.world import World

HOOKS = Topic(Lane.DEFAULT, WEBHOOKS)
NO_LONGER_S = 5.0
"""A hung Redis costs a fifth of a second once; the rest of this is for a busy machine."""
BREAKS = ("flushed", "killed", "stopped", "full", "stale")

pytestmark = pytest.mark.faults


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    with RedisServer() as server:
        yield server


def break_it(server: RedisServer, fault: str) -> None:
    match fault:
        case "flushed":
            server.ask("FLUSHALL")
        case "killed":
            server.kill()
        case "stopped":
            server.freeze()
        case "full":
            server.ask("CONFIG", "SET", "maxmemory", 1_000)
        case "stale":
            server.kill()  # back with the copy that was saved
            server.start()


def keyed(world: World, key: str) -> NewJob:
    new = world.job(in_ms=1_000)
    return replace(new, job=replace(new.job, idempotency_key=key), request_hash=b"same")


@pytest.mark.parametrize("fault", BREAKS)
async def test_requests_are_answered_as_without_a_cache(server: RedisServer, fault: str) -> None:
    world = World()
    cache = RedisKeys(read_address(server.url, setting="key_cache"), world.clock, cluster="t")
    known = KnownKeys(world.memory, cache, world.clock)
    try:
        first = [keyed(world, f"k{number}") for number in range(20)]
        assert {one.status for one in await known.insert_jobs(first[:10])} == {InsertStatus.CREATED}
        assert {one.status for one in await known.insert_jobs(first[:10])} == {InsertStatus.REPLAYED}
        assert known.saved_count == 10
        server.ask("SAVE")
        await known.insert_jobs(first[10:])
        world.memory._tables.keys.pop(("default", "k3"))  # the store has forgotten it, the cache has not
        break_it(server, fault)
        began = time.monotonic()
        for _ in range(3):
            again = [keyed(world, f"k{number}") for number in range(25)]
            answers = await known.insert_jobs(again)
            fresh = [n for n, one in enumerate(answers) if one.status is InsertStatus.CREATED]
            assert fresh in ([3, 20, 21, 22, 23, 24], [])
            for number, one in enumerate(answers[:20]):
                if number != 3:
                    assert (one.status, one.job_id) == (InsertStatus.REPLAYED, first[number].job.job_id)
            world.clock.step_ms(6_000)
        assert time.monotonic() - began < NO_LONGER_S
    finally:
        await known.aclose()


@pytest.mark.parametrize("fault", BREAKS)
async def test_every_hint_reaches_a_worker(server: RedisServer, fault: str) -> None:
    world = World()
    queue = MemoryQueue(world.clock, 5_000)
    address = read_address(server.url, setting="lease_cache")
    a, b = (
        LeasedQueue(queue, RedisBriefLeases(address, world.clock, cluster="t", holder=name), world.clock)
        for name in ("a", "b")
    )
    rows = np.zeros(60, dtype=HINT)
    rows["scheduled_ms"], rows["fence"] = np.arange(60), 1
    try:
        await queue.publish(HOOKS, rows)
        [delivery] = await a.take([HOOKS], 100)
        assert len(delivery.rows) == 60
        await a.ack([delivery.receipt])  # and dies before it has begun any
        server.ask("SAVE")
        break_it(server, fault)
        began, seen = time.monotonic(), set[int]()
        for _ in range(2):  # the owner publishes again what has not begun
            await queue.publish(HOOKS, rows)
            for delivery in await b.take([HOOKS], 100):
                seen.update(delivery.rows["scheduled_ms"].tolist())
            world.clock.step_ms(6_000)
        assert seen == set(range(60))
        assert time.monotonic() - began < NO_LONGER_S
    finally:
        await a._leases.aclose()
        await b.aclose()
