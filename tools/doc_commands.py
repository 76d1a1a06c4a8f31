"""Checks the commands that a page tells people to type: `tickwheel ...` and `make ...`.

A command is looked up, never run: each sub-command and each `--option` has to exist. Whether its answer is as
the page says is for a reader (and the acceptance tests) to see.
"""

import re
import shlex
from collections.abc import Iterator, Set

import click

SHELL_LANGUAGES = frozenset({"sh", "bash", "shell", "console"})
_ENDS_COMMAND = frozenset({"|", "||", "&&", ";", "&", "|&"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def find_commands(language: str, block: str) -> Iterator[list[str]]:
    """The words of each command of a shell block. In `console` blocks only lines with a prompt count."""
    lines = block.replace("\\\n", " ").splitlines()
    if language == "console":
        lines = [line.strip()[2:] for line in lines if line.strip().startswith("$ ")]
    for line in lines:
        words = _split(line)
        while words:
            end = next((i for i, word in enumerate(words) if word in _ENDS_COMMAND), len(words))
            command, words = words[:end], words[end + 1 :]
            while command and _ASSIGNMENT.match(command[0]):
                command = command[1:]
            if command:
                yield command


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quoted text that goes on in the next line: JSON given to curl, no command of ours
        return []


def find_problem(command: list[str], cli: click.Command | None, make_targets: Set[str]) -> str | None:
    """Why this command can't work, or None. Without `cli` only `make` commands are looked at."""
    program, words = command[0].rsplit("/", 1)[-1], command[1:]
    if program == "make":
        unknown = [
            word for word in words if not word.startswith("-") and "=" not in word and word not in make_targets
        ]
        return f"the Makefile has no target {unknown[0]!r}" if unknown else None
    if program == "tickwheel" and cli is not None:
        return _problem_of_cli_command(words, cli)
    return None


def _problem_of_cli_command(words: list[str], cli: click.Command) -> str | None:
    path = ["tickwheel"]
    options = _options(cli)
    for word in words:
        if word.startswith(("<", ">")):
            break
        if word.startswith("--"):
            if word.partition("=")[0] not in options:
                return f"{' '.join(path)!r} has no option {word.partition('=')[0]!r}"
        elif isinstance(cli, click.Group) and not word.startswith("-"):
            if word not in cli.commands:
                return f"{' '.join(path)!r} has no command {word!r}"
            cli = cli.commands[word]
            path.append(word)
            options |= _options(cli)
    return None


def _options(cli: click.Command) -> set[str]:
    params = cli.get_params(click.Context(cli))
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}
