"""Commands that are imported when they are called.

`tickwheel --help` prints names and one-liners from a table and imports nothing else, so it is quick and needs no
driver. To everything that walks the tree (help, completion, the check of the docs) the table looks like click's
own mapping of commands.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Final, NamedTuple

import click

from tickwheel.domain.errors import TickwheelError
from tickwheel.interfaces.cli.failures import ExitCode, failure_of

_OF_COMMANDS: Final = frozenset({"--url", "--token", "--tenant", "--json"})


class Entry(NamedTuple):
    """Where a command is (`module:attribute`), and its line in the list."""

    place: str
    summary: str


class LazyCommands(MutableMapping[str, click.Command]):
    """Name -> command; the module is imported at the first look-up of its name."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = dict(entries)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self.entries[name].place.partition(":")
            self._loaded[name] = getattr(import_module(module), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self.entries[name] = Entry("", command.get_short_help_str())
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.entries[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class RootGroup(click.Group):
    """The root command: lists without loading, keeps the order of the table, turns our errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if isinstance(self.commands, LazyCommands):
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.summary) for name, entry in self.commands.entries.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _OF_COMMANDS:
                raise
            message = f"{error.option_name} follows the command, as in `tickwheel jobs list {error.option_name}`"
            raise click.UsageError(message, ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TickwheelError as error:
            raise failure_of(error) from error
        except KeyboardInterrupt:
            click.echo(err=True)  # the shell's prompt begins on a line of its own after ^C
            ctx.exit(ExitCode.INTERRUPTED)
