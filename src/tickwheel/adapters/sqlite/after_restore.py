"""Makes a restored data folder safe to use: tokens must go on rising over everything that was forgotten."""

from pathlib import Path
from typing import Final

import apsw

from tickwheel.adapters.sqlite.connection import DATABASE_NAME, Session, open_writer
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.adapters.sqlite.lock import FolderLock
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.run import EPOCH_LEAP

SQL: Final = load_statements("ownership")


def after_restore(folder: Path) -> None:
    """Raise all epochs. Raises `ConfigError` when there is no database or a process uses it."""
    if not (folder / DATABASE_NAME).exists():
        raise ConfigError([FieldProblem("data", f"there is no database in {folder}; restore it first")])
    lock = FolderLock(folder)
    try:
        connection = open_writer(folder / DATABASE_NAME)
        try:
            Session(connection).run(SQL["leap_epochs"], {"rise": EPOCH_LEAP})
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        lock.release()
