"""One process per data folder, by an exclusive lock that dies with its holder.

Holding it is also the proof that every earlier incarnation is dead: what they left in flight may be reaped at
once.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from tickwheel.domain.errors import ConfigError, FieldProblem

LOCK_NAME: Final = "tickwheel.lock"


class FolderLock:
    """Held from construction until `release`, or until the process ends however it ends."""

    def __init__(self, folder: Path) -> None:
        """Raises `ConfigError` that names the holder's pid when the folder is in use."""
        self.path = folder / LOCK_NAME
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            message = f"{folder} is already in use by pid {holder}; stop that process or choose another folder"
            raise ConfigError([FieldProblem("data", message, "in_use")]) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have the folder."""
        os.close(self._file)
