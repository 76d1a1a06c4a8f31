"""How each queue is opened for the suite. An adapter joins by one entry in `BACKENDS`."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from unittest.mock import patch

from tickwheel.adapters.redis import servers, wire

from ...servers.postgresql_databases import emptied_store
from ...servers.redis import shared_redis, shared_redis_cluster
from .yards import PATIENCE_S, MemoryYard, PostgresYard, RedisYard, Yard


@asynccontextmanager
async def memory() -> AsyncIterator[Yard]:
    async with aclosing(MemoryYard()) as yard:
        yield yard


@asynccontextmanager
async def postgresql() -> AsyncIterator[Yard]:
    async with aclosing(PostgresYard(emptied_store())) as yard:
        yield yard


@contextmanager
def patient() -> Iterator[None]:
    """A busy machine may take longer to connect than a queue in production waits for."""
    with patch.object(wire, "CONNECT_SECONDS", PATIENCE_S), patch.object(servers, "MAP_SECONDS", PATIENCE_S):
        yield


@asynccontextmanager
async def redis() -> AsyncIterator[Yard]:
    server = shared_redis()
    with patient():
        async with aclosing(RedisYard(server.url, [server])) as yard:
            yield yard


@asynccontextmanager
async def redis_cluster() -> AsyncIterator[Yard]:
    cluster = shared_redis_cluster()
    with patient():
        async with aclosing(RedisYard(cluster.url, cluster.servers)) as yard:
            yield yard


BACKENDS: dict[str, Callable[[], AbstractAsyncContextManager[Yard]]] = {
    "memory": memory,
    "postgresql": postgresql,
    "redis": redis,
    "redis cluster": redis_cluster,
}
