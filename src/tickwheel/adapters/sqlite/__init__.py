"""The store on SQLite: one process, one file, one writer."""

from tickwheel.adapters.sqlite.after_restore import after_restore
from tickwheel.adapters.sqlite.migrate import Migration, pending_migrations
from tickwheel.adapters.sqlite.store import SqliteStore, open_sqlite_store

__all__ = ["Migration", "SqliteStore", "after_restore", "open_sqlite_store", "pending_migrations"]
