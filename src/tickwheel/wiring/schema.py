"""The schema of a store: what is to be done, doing it, and what a restored one needs. Everything here blocks."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.wiring.shared_store import is_shared, require_driver


class SchemaStep(NamedTuple):
    """One migration: how it is shown (`0001 pre first_schema`), and its statements."""

    label: str
    sql: str


def sqlite_path(rest: str) -> Path:
    """The folder in `sqlite:FOLDER`: relative as written, `///` before an absolute path as in other tools."""
    return Path("/" + rest.lstrip("/") if rest.startswith("///") else rest)


def pending_steps(url: str) -> Sequence[SchemaStep]:
    """What opening that store would change in its schema; changes nothing.

    Raises `ConfigError` when a newer program wrote it, `StoreUnavailable` when it can't be read.
    """
    if is_shared(url):
        require_driver()
        from tickwheel.adapters.postgresql import admission

        return [SchemaStep(step.label, step.sql) for step in admission.pending_steps(url)]
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        return []
    from tickwheel.adapters.sqlite import pending_migrations

    return [
        SchemaStep(f"{step.version:04d} {step.phase} {step.name}", step.sql)
        for step in pending_migrations(sqlite_path(rest))
    ]


def migrate_shared_store(url: str) -> Sequence[str]:
    """Bring a PostgreSQL store up to date; gives the labels of what this call did. Two may race."""
    require_driver()
    from tickwheel.adapters.postgresql import admission

    return [step.label for step in admission.migrate_database(url)]


def after_restore(url: str) -> None:
    """Raise all epochs of a restored store. Raises `ConfigError` while somebody uses it."""
    if is_shared(url):
        require_driver()
        from tickwheel.adapters.postgresql.after_restore import after_restore as make_safe

        make_safe(url)
        return
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        raise ConfigError([FieldProblem("store", "memory: is never restored; name another store")])
    from tickwheel.adapters.sqlite import after_restore as make_folder_safe

    make_folder_safe(sqlite_path(rest))
