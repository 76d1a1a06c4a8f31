"""Flags made of the settings, so that a setting exists once and has one name everywhere."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import click
from click.core import ParameterSource

from tickwheel.config import ENV_PREFIX, Settings, default_text, load_settings, setting_help

Command = TypeVar("Command", bound=Callable[..., Any])
ALL: Final = tuple(field.name for field in fields(Settings))
_TYPES: Final = get_type_hints(Settings)
_METAVARS: Final = {
    "host": "ADDRESS",
    "advertise": "HOST",
    "cluster": "NAME",
    "coordinator": "URL",
    "history": "DIR",
    "host_rate": "HOST=RATE",
    "queue_rate": "handler:NAME=RATE",
    "queue": "URL",
    "buffer": "URL",
    "key_cache": "URL",
    "lease_cache": "URL",
    "roles": "api,scheduler,worker",
    "store": "URL",
    "tls_cert": "FILE",
    "tls_key": "FILE",
    "tls_client_ca": "FILE",
    "secrets_key": "ID:BASE64",
    "secrets_key_file": "FILE",
    "secrets_key_command": "COMMAND",
    "store_reads": "URL",
    "data": "DIR",
    "app": "MODULE[:OBJECT]",
    "allow_private": "CIDR",
    "nat64_prefix": "CIDR",
    "webhook_ports": "PORTS",
    "egress_proxy": "[NAME=]URL",
    "slo": "WHOM=SHARE%@BOUND",
    "metrics_tenants": "NAMES",
    "log_format": "text|json",
    "log_level": "LEVEL",
}


def settings_options(*, leave_out: Collection[str] = ()) -> Callable[[Command], Command]:
    """Add a flag per setting, and `--config`. Values are checked by `read_settings`, all at once."""

    def add(command: Command) -> Command:
        for name in reversed([name for name in ALL if name not in leave_out]):
            command = _option(name)(command)
        return click.option(
            "--config",
            type=click.Path(path_type=Path),
            envvar=f"{ENV_PREFIX}CONFIG",
            show_envvar=True,
            help="TOML file with settings; flags and the environment win over it.",
        )(command)

    return add


def _option(name: str) -> Callable[[Command], Command]:
    flag = "--" + name.replace("_", "-")
    declaration = f"{flag}/--no-{flag[2:]}" if _TYPES[name] is bool else flag
    multiple = _TYPES[name] == tuple[str, ...]
    metavar = "INTEGER" if _TYPES[name] is int else _METAVARS.get(name, "TEXT")
    return click.option(
        declaration,
        name,
        default=None,
        multiple=multiple,
        metavar=None if _TYPES[name] is bool else metavar,
        help=f"{setting_help(name)}{_default_note(name)}",
    )


def _default_note(name: str) -> str:
    note = f"{ENV_PREFIX}{name.upper()}"
    default = default_text(name)
    return f" [{note}; default: {default}]" if default else f" [{note}]"


def read_settings(context: click.Context, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of this command: file, environment, flags, and what the command itself insists on.

    Raises `ConfigError` with every problem.
    """
    given = {
        name: value
        for name, value in context.params.items()
        if name in ALL and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    config_file: Path | None = context.params.get("config")
    return load_settings(flags={**given, **(overrides or {})}, environ=os.environ, config_file=config_file)
