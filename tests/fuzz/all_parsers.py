"""Every parser that is fuzzed, in the order of the table."""

from importlib import import_module
from pathlib import Path

from .parser import Parser

GROUPS = tuple(sorted(path.stem for path in (Path(__file__).parent / "parsers").glob("[a-z]*.py")))


def all_parsers() -> list[Parser]:
    """By group."""
    package = __name__.rpartition(".")[0]
    return [parser for group in GROUPS for parser in import_module(f"{package}.parsers.{group}").PARSERS]
