"""What every benchmark takes, and how its figures are told."""

import asyncio
import functools
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.progress import Progress, progress
from tickwheel.interfaces.cli.failures import Failure, failure_of

STORE_HELP: Final = "An empty store to measure (default: SQLite in a temporary folder)."
SMOKE_HELP: Final = "As small as it gets: shows that the benchmark works."
Measure = Callable[[str, Path, Progress], Figures | Coroutine[Any, Any, Figures]]


class Options(NamedTuple):
    """What every benchmark takes."""

    store: str | None
    as_json: bool
    smoke: bool

    def run(self, label: str, steps: int, measure: Measure) -> None:
        """Measure with a progress bar and print the figures, the JSON line last."""
        with tempfile.TemporaryDirectory() as folder:
            url = self.store or f"sqlite:{Path(folder) / 'bench.db'}"
            try:
                with progress(label, steps, quiet=self.as_json) as bar:
                    outcome = measure(url, Path(folder), bar)
                    figures = outcome if isinstance(outcome, dict) else _on_loop(outcome)
            except BenchFailed as error:
                raise Failure([f"the benchmark failed: {error}"]) from None
            except TickwheelError as error:
                raise failure_of(error) from None
        if not self.as_json:
            for name, value in figures.items():
                click.echo(f"  {name:22} {value if isinstance(value, str) else format(value, ',')}", err=True)
        click.echo(msgspec.json.encode(figures).decode())


def _on_loop(work: Coroutine[Any, Any, Figures]) -> Figures:
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def common(command: Callable[..., None]) -> Callable[..., None]:
    """Gather the options of every benchmark into one argument."""

    @click.option("--store", metavar="URL", help=STORE_HELP)
    @click.option("--json", "as_json", is_flag=True, help="Only the JSON line.")
    @click.option("--smoke", is_flag=True, help=SMOKE_HELP)
    @functools.wraps(command)
    def gathered(store: str | None, as_json: bool, smoke: bool, **given: Any) -> None:
        command(Options(store, as_json, smoke), **given)

    return gathered


def count(name: str, default: int, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", type=click.IntRange(min=0), default=default, show_default=True, help=text)


def processes_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--processes",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Processes of the server; several need PostgreSQL.",
    )(command)
