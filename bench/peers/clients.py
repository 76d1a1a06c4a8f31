"""Package clients and compilers, and the folders that they fill: made anew when a pinned version changes."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TOLD_CHARACTERS: Final = 600


class InstallFailed(Exception):
    """A package client or compiler said no, or is not there."""


def run_client(command: list[str], folder: Path) -> None:
    """Run it in that folder; InstallFailed with what it said."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise InstallFailed(f"{command[0]} is not installed") from None
    except OSError as error:
        raise InstallFailed(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise InstallFailed(f"{command[0]} ended with code {done.returncode}: {said[-TOLD_CHARACTERS:]}")


def renew(folder: Path) -> None:
    """Make it empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def is_stale(folder: Path, versions: Mapping[str, str]) -> bool:
    """Whether something else than these versions is in there, or nothing."""
    mark = folder / "versions.json"
    return not mark.is_file() or json.loads(mark.read_text()) != dict(versions)


def stamp(folder: Path, versions: Mapping[str, str]) -> None:
    """Note that these versions are in there."""
    (folder / "versions.json").write_text(json.dumps(dict(versions)))
