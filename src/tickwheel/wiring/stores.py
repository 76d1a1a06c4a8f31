"""Which store a URL names."""

from typing import Protocol

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.redaction import redacted
from tickwheel.ports.audit import Audited
from tickwheel.ports.clock import Clock
from tickwheel.ports.explaining import ExplainingStore
from tickwheel.ports.keys import KeyedStore
from tickwheel.ports.notices import NoticeStore
from tickwheel.ports.registry import Registry
from tickwheel.ports.specs import SpecStore
from tickwheel.ports.store import Store
from tickwheel.wiring.schema import pending_steps, sqlite_path
from tickwheel.wiring.shared_store import is_shared, open_shared_store


class AuditedStore(Store, Audited, Registry, SpecStore, KeyedStore, ExplainingStore, NoticeStore, Protocol):
    """What every store here is."""


def store_url(settings: Settings) -> str:
    """The store as it is used: the setting, or SQLite in the data folder."""
    return settings.store or f"sqlite:{settings.data}"


def shown_store(settings: Settings) -> str:
    """The same for people and logs, without a password."""
    return redacted(store_url(settings))


def require_database(settings: Settings) -> None:
    """Raises `ConfigError` where opening would make a new store: somebody who looks there mistakes the folder."""
    scheme, _, rest = store_url(settings).partition(":")
    if scheme != "sqlite":
        return
    from tickwheel.adapters.sqlite.connection import DATABASE_NAME

    if not (sqlite_path(rest) / DATABASE_NAME).exists():
        message = f"there is no database in {sqlite_path(rest)}; --data names the folder of one"
        raise ConfigError([FieldProblem("data", message)])


async def open_any_store(url: str, clock: Clock) -> AuditedStore:
    """Any store, shared ones too, for a process that does not join a cluster: benchmarks and tools."""
    if not is_shared(url):
        return await open_store(url, clock)
    store, _ = await open_shared_store(Settings(store=url), clock)
    return store


async def open_settings_store(settings: Settings, clock: Clock) -> AuditedStore:
    """The store of the settings, for a command that works on it. Raises `ConfigError` and `StoreUnavailable`."""
    if is_shared(settings.store):
        return (await open_shared_store(settings, clock))[0]
    return await open_store(store_url(settings), clock, auto_migrate=settings.auto_migrate)


async def open_store(url: str, clock: Clock, *, auto_migrate: bool = True) -> AuditedStore:
    """The embedded store that a URL names: `sqlite:FOLDER` (also `sqlite:///FOLDER`) or `memory:`."""
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryStore(clock)
    if scheme == "sqlite":
        from tickwheel.adapters.sqlite import open_sqlite_store

        pending = [] if auto_migrate else pending_steps(url)
        if pending:
            message = f"is behind this program by {len(pending)} migration(s): run `tickwheel migrate`"
            raise ConfigError([FieldProblem("store", message, "schema_behind")])
        return await open_sqlite_store(sqlite_path(rest), clock)
    raise ConfigError([FieldProblem(field="store", message=f"there is no store of kind {scheme!r}")])
