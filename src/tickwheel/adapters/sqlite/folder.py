"""The data folder: made for its owner alone, and looked at for what others may do there.

Jobs are stored with their payloads, and everything is as safe as the files are. A folder that was there before is
left as it is: whoever gave it to a group may have a reason. But it is told.
"""

import stat
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_folder(folder: Path) -> None:
    """Make it, and what is missing above it, if it isn't there. An `OSError` names it, whatever is in the way."""
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def find_open_paths(folder: Path) -> list[str]:
    """The folder and those of its files that anybody but their owner has a right to, each with its mode."""
    found = []
    for path in (folder, *sorted(folder.glob("tickwheel.*"))):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:  # it is gone again, or not ours to look at
            continue
        if mode & OTHERS:
            found.append(f"{path} ({mode:04o})")
    return found
