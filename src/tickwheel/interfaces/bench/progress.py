"""A progress bar on stderr; silent when nobody looks (a pipe, or --json)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Progress(Protocol):
    """Moved on by `update`."""

    def update(self, n_steps: int) -> None: ...


class _Silent:
    def update(self, n_steps: int) -> None:
        """Show nothing."""


@contextmanager
def progress(label: str, length: int, *, quiet: bool) -> Iterator[Progress]:
    """A bar of `length` steps."""
    if quiet or not sys.stderr.isatty():
        yield _Silent()
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar
