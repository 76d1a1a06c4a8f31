"""`tickwheel worker --reload`: starts the worker again whenever a Python file under this folder changes.

The worker is a process of its own, so nothing of the old code stays. It is told to stop as by SIGTERM: what it
runs gets the grace time. If the new code can't even be imported, the message is there to read and the next change
starts it again. Files are looked at twice a second: no watcher of the system is needed, and a folder with
thousands of files costs a few milliseconds.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

LOOK_S: Final = 0.5
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
Sight = dict[str, int]
"""When each file was changed, in nanoseconds."""


def run_reloading(folder: Path | None = None) -> None:
    """Until Ctrl-C or SIGTERM; ends with the worker's exit code."""
    watched = folder or Path.cwd()
    asked = threading.Event()
    child: subprocess.Popen[bytes] | None = None

    def on_signal(number: int, frame: object) -> None:
        if asked.is_set() and child is not None and child.returncode is None:
            child.send_signal(number)  # it drains already: this one ends it at once
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    command = [sys.executable, "-m", "tickwheel", *without_reload(sys.argv[1:])]
    code = 0
    while not asked.is_set():
        before = look(watched)
        # A session of its own: Ctrl-C in the terminal reaches this process, which tells the worker once.
        child = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own command line
        changed = _wait_for_change(watched, before, asked, child)
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        code = child.wait()
        if changed and not asked.is_set():
            click.echo(f"{changed} changed: starting again.")
    sys.exit(code if code >= 0 else 128 - code)


def _wait_for_change(folder: Path, before: Sight, asked: threading.Event, child: "subprocess.Popen[bytes]") -> str:
    told = False
    while not asked.wait(LOOK_S):
        now = look(folder)
        if now != before:
            names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            return os.path.relpath(names[0], folder)
        if child.poll() is not None and not told:
            told = True
            click.echo("The worker has ended; it is started again when a file changes.", err=True)
    return ""


def look(folder: Path) -> Sight:
    """All Python files under that folder."""
    return dict(_files(str(folder)))


def _files(folder: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED and not entry.name.startswith("."):
                    yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_mtime_ns
        except OSError:  # it is gone
            continue


def without_reload(arguments: list[str]) -> list[str]:
    """The same command line for the worker itself."""
    return [argument for argument in arguments if argument != "--reload"]
