"""Writes the generated part of `docs/reference/cli.md` from the commands themselves.

usage: python tools/cli_reference.py [--check]      (--check writes nothing and fails when the page is old)
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from generated_page import GeneratedPage, table
from tickwheel.config import ENV_PREFIX
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.main import cli

SHARED = ("--url", "--token", "--tenant", "--json")
"""Options of all commands that talk to a server: explained once, at the top of the page."""


def render() -> str:
    """Exit codes, then each command with its usage, options and examples."""
    codes = table(("code", "meaning"), [(str(code.value), code.meaning) for code in ExitCode])
    sections = [_section(path, command, context) for path, command, context in _walk()]
    return "\n\n".join(("## Exit codes", codes, *sections))


def _walk() -> Iterator[tuple[str, click.Command, click.Context]]:
    def below(group: click.Group, parent: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
        for name in group.list_commands(parent):
            command = group.commands[name]
            context = click.Context(command, parent=parent, info_name=name)
            yield context.command_path, command, context
            if isinstance(command, click.Group):
                yield from below(command, context)

    assert isinstance(cli, click.Group)
    root = click.Context(cli, info_name="tickwheel")
    return below(cli, root)


def _section(path: str, command: click.Command, context: click.Context) -> str:
    depth = "##" if path.count(" ") == 1 else "###"
    parts = [f"{depth} {path}", _paragraphs(command.help or "")]
    if not isinstance(command, click.Group):
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"```text\n{path} {usage}\n```")
    rows = [row for parameter in command.get_params(context) if (row := _option_row(parameter, context))]
    if rows:
        parts.append(table(("option", "meaning"), rows))
    if settings := [flag for parameter in command.params if (flag := _settings_flag(parameter))]:
        parts.append(f"And a flag for each of these [settings](configuration.md): {', '.join(settings)}.")
    if command.epilog:
        parts.append(_examples(command.epilog))
    return "\n\n".join(parts)


def _option_row(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    if not isinstance(parameter, click.Option) or "--help" in parameter.opts or _settings_flag(parameter):
        return None
    talks_to_a_server = any("--url" in other.opts for other in context.command.params)
    if talks_to_a_server and not set(SHARED).isdisjoint(parameter.opts):
        return None
    record = parameter.get_help_record(context)
    return None if record is None else (f"`{record[0]}`", " ".join(record[1].split()))


def _settings_flag(parameter: click.Parameter) -> str | None:
    """The flag in backquotes if the option is made of a setting."""
    is_setting = f"[{ENV_PREFIX}{(parameter.name or '').upper()}" in (getattr(parameter, "help", None) or "")
    return f"`{parameter.opts[0]}`" if is_setting else None


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))


def _examples(epilog: str) -> str:
    lines = [line.strip() for line in epilog.replace("\b", "").splitlines()]
    return "```sh\n" + "\n".join(line for line in lines if line and line != "Examples:") + "\n```"


PAGE = GeneratedPage(Path("docs/reference/cli.md"), tool="cli_reference.py", render=render)

if __name__ == "__main__":
    sys.exit(PAGE.main(sys.argv[1:]))
