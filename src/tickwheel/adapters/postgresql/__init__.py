"""Everything that Tickwheel does with PostgreSQL; needs the extra `postgresql`."""

from tickwheel.adapters.postgresql.migrate import migrate, pending_migrations
from tickwheel.adapters.postgresql.store import PostgresqlStore, open_postgresql_store

__all__ = ["PostgresqlStore", "migrate", "open_postgresql_store", "pending_migrations"]
