"""Commands that work on a running server or, where none is named, on the store itself."""

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
from click.core import ParameterSource

from tickwheel.config import Settings, load_settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.registry import Act

SERVER_FLAGS: Final = ("url", "token")
MAKERS: Final = frozenset({"create", "set"})
"""Commands that may be the first to use a store."""


def means_store(context: click.Context, store_flags: Sequence[str]) -> bool:
    """Whether the store is meant: one of its flags is given, or nothing names a server."""
    return _named(context, store_flags) or not _named(context, SERVER_FLAGS, environment=True)


def _named(context: click.Context, names: Sequence[str], *, environment: bool = False) -> bool:
    sources = {ParameterSource.COMMANDLINE} | ({ParameterSource.ENVIRONMENT} if environment else set())
    return any(context.get_parameter_source(name) in sources for name in names)


def store_settings(flags: dict[str, Any], config_file: Any = None) -> Settings:
    """Settings with these flags. A token in the environment is one to send, not one of this command's settings."""
    environ = {name: value for name, value in os.environ.items() if name != "TICKWHEEL_TOKEN"}
    return load_settings(flags=flags, environ=environ, config_file=config_file)


def kept_there(context: click.Context, settings: Settings) -> Settings:
    """The same settings. Raises `ConfigError` when the command would make a store only to find nothing in it."""
    from tickwheel.wiring import require_database

    if context.command.name not in MAKERS:
        require_database(settings)
    return settings


@contextmanager
def explained(remedy: str) -> Iterator[None]:
    """A store in use is one of a running server: say what to do instead."""
    try:
        yield
    except ConfigError as error:
        if all(problem.code != "in_use" for problem in error.problems):
            raise
        raise ConfigError([FieldProblem("data", f"a server runs on this data; {remedy}", "in_use")]) from error


ASK_IT: Final = "ask it instead, with --url and --token (or TICKWHEEL_TOKEN)"


def act_of(action: str) -> Act:
    """The audit log says that it was the command line, and whose."""
    return Act(f"cli:{getpass.getuser()}", action)
