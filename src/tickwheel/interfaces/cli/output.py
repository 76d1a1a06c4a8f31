"""What commands print: JSON for programs, aligned columns for people."""

import shutil
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

_GAP: Final = "  "
_CUT: Final = "…"


def print_json(value: Any) -> None:
    """One line of JSON; bytes are JSON already and go out as they are."""
    click.echo(value if isinstance(value, bytes) else msgspec.json.encode(value))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Columns as wide as they need to be; on a terminal the last one is cut at the edge."""
    if not rows:
        click.echo(empty, err=True)
        return
    cells = [list(columns)] + [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    edge = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in cells:
        text = _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        click.echo(text if edge is None or len(text) <= edge else text[: edge - 1] + _CUT)


def print_fields(pairs: Sequence[tuple[str, object]]) -> None:
    """One `name  value` per line; None is left out."""
    shown = [(name, printable(value)) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        click.echo(f"{name.ljust(width)}{_GAP}{text}")


def printable(value: object) -> str:
    """A cell's text. Names and answers come from others: no escape sequence of theirs may reach the terminal."""
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{MIDDLE DOT}" for c in text)
