"""The queue on a Redis Cluster whose masters are killed, stopped and unburdened of slots while it is used."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import aclosing
from typing import TypeVar

import pytest

from tickwheel.adapters.redis.queue import RedisQueue, open_redis_queue
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import Topic

from ..conformance.queue.hints import ALL, HOOKS, fences, hints, taken
from ..servers.redis import RedisCluster, RedisServer
from ..servers.waiting import wait_until

T = TypeVar("T")
PATIENCE_S = 30
BOUND_S = 2.5
"""A second, and what a busy machine adds."""
TOPICS = [Topic(Lane.DEFAULT, f"handler:h{n}") for n in range(12)]


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
async def queue(cluster: RedisCluster) -> AsyncIterator[RedisQueue]:
    async with aclosing(opened(cluster)) as queue:
        yield queue


def opened(cluster: RedisCluster) -> RedisQueue:
    return open_redis_queue(cluster.url, SystemClock(), cluster="mine", visible_again_ms=1_000)


class Traffic:
    """An owner that publishes what no worker has begun, and a worker; both meet `ConnectionError` only."""

    def __init__(self, owner: RedisQueue, worker: RedisQueue) -> None:
        self.owner, self.worker = owner, worker
        self.begun: set[int] = set()
        self.failures = 0
        self.longest_s = 0.0
        self.ended = False

    async def run(self, count: int) -> None:
        self.ended = False
        awaited = set(range(count))
        publishing = asyncio.create_task(self._publish(awaited))
        working = asyncio.create_task(self._work())
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not awaited <= self.begun:
                assert time.monotonic() < deadline, f"{len(awaited - self.begun)} hints never came"
                for task in (publishing, working):
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)
        finally:
            self.ended = True
            await asyncio.gather(publishing, working)

    async def _publish(self, awaited: set[int]) -> None:
        while not self.ended:
            for number, topic in enumerate(TOPICS):
                left = sorted(fence for fence in awaited - self.begun if fence % len(TOPICS) == number)
                await self._call(self.owner.publish(topic, hints(*left[:100])))
            await asyncio.sleep(0.1)

    async def _work(self) -> None:
        while not self.ended:
            await self._call(self.worker.wait(TOPICS, 100), beside_s=0.1)
            for delivery in await self._call(self.worker.take(TOPICS, 500)) or ():
                self.begun.update(fences(delivery.rows))
                await self._call(self.worker.ack([delivery.receipt]))

    async def _call(self, verb: Awaitable[T], beside_s: float = 0) -> T | None:
        begun = time.monotonic()
        try:
            return await verb
        except ConnectionError:
            self.failures += 1
            await asyncio.sleep(0.01)
            return None
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - begun - beside_s)


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_a_master_that_fails_is_replaced_while_hints_travel(
    cluster: RedisCluster, queue: RedisQueue, fault: str
) -> None:
    async with aclosing(opened(cluster)) as worker:
        traffic = Traffic(queue, worker)
        await traffic.run(200)
        assert traffic.failures == 0
        victim = cluster.master_of(queue._key(TOPICS[0]))
        running = asyncio.ensure_future(traffic.run(3_000))
        await asyncio.sleep(0.05)
        getattr(victim, fault)()
        await running
        assert traffic.failures > 0
        assert traffic.longest_s < BOUND_S
        # What comes later goes through without a restart, and without an error, once the new master serves.
        await traffic.run(6_000)
        if fault == "freeze":
            victim.thaw()
        else:
            victim.start()
        await traffic.run(9_000)


async def test_topics_on_other_masters_are_served_meanwhile() -> None:
    """Without replicas: nobody takes the dead one's place. (`cluster-require-full-coverage` is off then.)"""
    with RedisCluster(replicas=0) as cluster:
        for server in cluster.servers:
            server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        async with aclosing(opened(cluster)) as queue:
            by_master: dict[RedisServer, list[Topic]] = {}
            for number, topic in enumerate(TOPICS):
                by_master.setdefault(cluster.master_of(queue._key(topic)), []).append(topic)
                await queue.publish(topic, hints(number))
            victim, healthy, *_ = sorted(by_master, key=lambda server: server.port)
            victim.kill()
            left = [topic for topic in TOPICS if topic not in by_master[victim]]
            await queue.wait(TOPICS, 100)
            assert [delivery.topic for delivery in await queue.take(TOPICS, ALL)] == left
            with pytest.raises(ConnectionError):
                await queue.take(by_master[victim], ALL)
            with pytest.raises(ConnectionError):
                await queue.depth(TOPICS)
            with pytest.raises(ConnectionError):
                await queue.publish(by_master[victim][0], hints(1))
            await queue.publish(by_master[healthy][0], hints(99))
            assert await taken(queue, *TOPICS) == [99]


async def test_every_server_restarted_empty(cluster: RedisCluster, queue: RedisQueue) -> None:
    """Servers keep their place in the cluster, in a file; their data are gone."""
    await queue.publish(HOOKS, hints(1))
    for server in cluster.servers:
        server.kill()
    with pytest.raises(ConnectionError):
        await queue.take([HOOKS], ALL)
    for server in cluster.servers:
        server.start()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await queue.publish(HOOKS, hints(2))
            break
        except ConnectionError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
    assert 2 in await taken(queue)


async def test_a_slot_that_moves_is_followed(cluster: RedisCluster, queue: RedisQueue) -> None:
    """While it moves, what is there already is asked for at the old place (ASK), then at the new one (MOVED)."""
    key = queue._key(HOOKS)
    await queue.publish(HOOKS, hints(1))
    source = cluster.master_of(key)
    target = next(server for server in cluster.masters() if server is not source)
    slot = source.ask("CLUSTER", "KEYSLOT", key)
    ids = {server: server.ask("CLUSTER", "MYID") for server in (source, target)}
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    assert await queue.depth([HOOKS]) == [1]
    source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
    assert await queue.depth([HOOKS]) == [1]
    await queue.publish(HOOKS, hints(2))
    for server in (target, source, *cluster.masters()):
        server.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    wait_until(lambda: knows(cluster, key, target), PATIENCE_S, "all servers know the new place")
    assert await taken(queue) == [1, 2]
    await queue.publish(HOOKS, hints(3))
    assert await taken(queue) == [3]


def knows(cluster: RedisCluster, key: bytes, holder: RedisServer) -> bool:
    slot = holder.ask("CLUSTER", "KEYSLOT", key)
    for server in cluster.servers:
        for first, last, (_, port, *_), *_ in server.ask("CLUSTER", "SLOTS"):
            if first <= slot <= last and port != holder.port:
                return False
    return True


async def test_topics_are_spread_over_masters(cluster: RedisCluster, queue: RedisQueue) -> None:
    for topic in TOPICS:
        await queue.publish(topic, hints(1))
    assert await queue.depth(TOPICS) == [1] * len(TOPICS)
    assert len(await queue.take(TOPICS, ALL)) == len(TOPICS)
    assert all(server.ask("DBSIZE") for server in cluster.masters())
