"""How each coordinator is opened for the suite: empty, on a clock that the test moves.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from itertools import count

from tickwheel.adapters.consul import open_consul_coordinator
from tickwheel.adapters.etcd import open_etcd_coordinator
from tickwheel.adapters.memory.coordinator import MemoryCoordinator
from tickwheel.adapters.postgresql.coordinator import PostgresCoordinator
from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.ports.coordinator import Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from ...servers.etcd import shared_etcd
from ...servers.fake_consul import FakeConsul
from ...servers.postgresql_databases import copied_database, shared_server

LAPSE_MS = 2_000
PATIENT_MS = 10_000
"""The suite moves its own clock; how long a server takes on a busy machine is no part of it."""
_numbers = count(1)


@asynccontextmanager
async def memory(clock: VirtualClock) -> AsyncIterator[Coordinator]:
    yield MemoryCoordinator(clock, LAPSE_MS)


@asynccontextmanager
async def fake_consul(clock: VirtualClock) -> AsyncIterator[Coordinator]:
    with FakeConsul() as server:
        coordinator = open_consul_coordinator(server.url, clock, lapse_ms=LAPSE_MS, try_ms=PATIENT_MS)
        async with aclosing(coordinator) as opened:
            yield opened


@asynccontextmanager
async def etcd(clock: VirtualClock) -> AsyncIterator[Coordinator]:
    cluster = f"test-{next(_numbers)}"
    async with aclosing(
        open_etcd_coordinator(shared_etcd().url, clock, cluster=cluster, lapse_ms=LAPSE_MS)
    ) as opened:
        yield opened


@asynccontextmanager
async def postgresql(clock: VirtualClock) -> AsyncIterator[Coordinator]:
    url = shared_server().url(copied_database("migrated", _migrated))
    async with aclosing(PostgresCoordinator(url, lapse_ms=LAPSE_MS, pinned_clock=clock)) as opened:
        yield opened


def _migrated(url: str) -> None:
    migrate(url)


BACKENDS: dict[str, Callable[[VirtualClock], AbstractAsyncContextManager[Coordinator]]] = {
    "etcd": etcd,
    "fake consul": fake_consul,
    "memory": memory,
    "postgresql": postgresql,
}
