"""A store that several nodes share: PostgreSQL, imported only where it is asked for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwheel.config import CLUSTER_SCHEMES, Settings
from tickwheel.ports.clock import Clock
from tickwheel.wiring.extras import require

if TYPE_CHECKING:
    from tickwheel.adapters.postgresql.store import PostgresqlStore


def is_shared(url: str) -> bool:
    """Whether this is the address of a store that several nodes share."""
    return url.partition(":")[0] in CLUSTER_SCHEMES


def require_driver() -> None:
    """Raise `ConfigError` when the extra is not installed."""
    require("psycopg", "store")


async def open_shared_store(settings: Settings, clock: Clock) -> "tuple[PostgresqlStore, Sequence[str]]":
    """The store, and what is unwise about the server. Raises `ConfigError` and `StoreUnavailable`."""
    require_driver()
    from tickwheel.adapters.postgresql.admission import admit
    from tickwheel.adapters.postgresql.store import open_postgresql_store

    admitted = await asyncio.to_thread(
        admit, settings.store, cluster=settings.cluster, auto_migrate=settings.auto_migrate
    )
    options: dict[str, Any] = {"history": Path(settings.history)} if settings.history else {}
    if settings.store_reads:
        options["reader_url"] = settings.store_reads
    store = await open_postgresql_store(settings.store, clock, **options)
    return store, admitted.warnings
