"""How each queue is opened for the suite. An adapter joins by one entry in `BACKENDS`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from ...servers.postgresql_databases import emptied_store
from ...servers.redis import shared_redis, shared_redis_cluster
from .yards import MemoryYard, PostgresYard, RedisYard, Yard


@asynccontextmanager
async def memory() -> AsyncIterator[Yard]:
    async with aclosing(MemoryYard()) as yard:
        yield yard


@asynccontextmanager
async def postgresql() -> AsyncIterator[Yard]:
    async with aclosing(PostgresYard(emptied_store())) as yard:
        yield yard


@asynccontextmanager
async def redis() -> AsyncIterator[Yard]:
    server = shared_redis()
    async with aclosing(RedisYard(server.url, [server])) as yard:
        yield yard


@asynccontextmanager
async def redis_cluster() -> AsyncIterator[Yard]:
    cluster = shared_redis_cluster()
    async with aclosing(RedisYard(cluster.url, cluster.servers)) as yard:
        yield yard


BACKENDS: dict[str, Callable[[], AbstractAsyncContextManager[Yard]]] = {
    "memory": memory,
    "postgresql": postgresql,
    "redis": redis,
    "redis cluster": redis_cluster,
}
