"""Where tests keep files that need not outlive a crash of the machine.

SQLite and PostgreSQL wait for the disk at each commit. What a test kills is a process, and what that wrote is kept
by the operating system either way, so on a file system in memory the same is proved without the waiting.
"""

import shutil
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/dev/shm")
ROOM_BYTES: Final = 2 << 30
"""What must be free there: a run of the tests takes some 300 MB, and several may run at once."""


def memory_folder() -> Path | None:
    """The folder of a file system in memory; None where there is none with enough room."""
    roomy = FOLDER.is_dir() and shutil.disk_usage(FOLDER).free >= ROOM_BYTES
    return FOLDER if roomy else None
