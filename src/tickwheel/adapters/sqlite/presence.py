"""Notices that the open database, or the lock beside it, was moved, deleted or replaced.

A deleted file lives on for whoever has it open, so SQLite would go on committing, and we acknowledging, into files
that no later start finds. Example: a clean-up script removes the data folder of a running server. And a lock whose
file is gone keeps nobody out any more: somebody takes it for a stale one, removes it and starts a second process.
"""

import os
from pathlib import Path

import apsw

from tickwheel.domain.errors import StoreUnavailable


class Presence:
    """Knows which files the connection opened, and the lock; three `stat` calls a check."""

    def __init__(self, connection: apsw.Connection, lock: Path) -> None:
        paths = (connection.filename, connection.filename_wal, str(lock))
        self._files = {path: _identity(path) for path in paths}

    def check(self) -> None:
        """Raise `StoreUnavailable` unless the names still lead to those files."""
        for path, identity in self._files.items():
            if _identity(path) != identity:
                raise StoreUnavailable(
                    f"{path} was moved, deleted or replaced while in use; put it back or restart"
                )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
