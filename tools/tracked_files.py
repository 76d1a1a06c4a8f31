"""Which files the checks look at: what git tracks, and what it would track if you added it now."""

import subprocess
from pathlib import Path


def tracked_files(root: Path) -> list[Path]:
    """Paths under `root`, relative to it and sorted; ignored and deleted files are left out."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return sorted({Path(name) for name in names if name and (root / name).is_file()})


def read_text(path: Path) -> str | None:
    """The text of a file; None where it isn't text."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
