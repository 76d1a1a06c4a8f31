"""The options that say how a server is known over TLS, and how it knows us."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from tickwheel.config import ENV_PREFIX, ServerTrust
from tickwheel.domain.errors import FieldProblem

Command = TypeVar("Command", bound=Callable[..., Any])


def _file_option(name: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        envvar=f"{ENV_PREFIX}{name.upper()}",
        show_envvar=True,
        metavar="FILE",
        help=help_text,
    )


TRUST_OPTIONS: Final = (
    _file_option("client_key", "Its private key, where it isn't in the same file."),
    _file_option("client_cert", "Certificate to show to a server that asks for one: a PEM file."),
    _file_option(
        "ca_file", "Trust a server that these authorities vouch for: a PEM file (default: the machine's)."
    ),
)


def trust_options(command: Command) -> Command:
    """Add all of them."""
    for option in TRUST_OPTIONS:
        command = option(command)
    return command


def pop_trust(given: dict[str, Any], problems: list[FieldProblem]) -> ServerTrust:
    """Take them out of what was given; files that aren't there are problems."""
    trust = ServerTrust(
        ca_file=given.pop("ca_file") or None,
        client_cert=given.pop("client_cert") or None,
        client_key=given.pop("client_key") or None,
    )
    problems += [FieldProblem(f"--{one.field.replace('_', '-')}", one.message) for one in trust.problems()]
    return trust
