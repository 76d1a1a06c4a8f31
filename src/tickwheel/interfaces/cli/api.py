"""The options of all commands that talk to a server, and the connection made of them."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tickwheel.config import ENV_PREFIX, ServerTrust
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.interfaces.cli.output import print_json
from tickwheel.interfaces.cli.trust_options import TRUST_OPTIONS, pop_trust
from tickwheel.interfaces.client.blocking import drive
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.flow import Flow, exchange
from tickwheel.interfaces.client.transport import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Transport, check_url

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])
_TIMEOUT_MS: Final = int(DEFAULT_TIMEOUT_SECONDS * 1000)


class Api:
    """A server, whose things are meant, and how to print the answer."""

    def __init__(
        self, *, url: str, token: str | None, tenant: str | None, as_json: bool, trust: ServerTrust
    ) -> None:
        self.tenant, self.as_json = tenant, as_json
        self._transport = Transport(url, token=token, timeout_ms=_TIMEOUT_MS, trust=trust)
        self._never = threading.Event()

    def ask(self, call: Call[T]) -> T:
        """The typed answer."""
        return self.run(exchange(call))

    def run(self, flow: Flow[T]) -> T:
        """Do what a flow of the client says."""
        return drive(flow, self._transport, self._never)

    def show(self, call: Call[T], for_people: Callable[[T], None]) -> None:
        """Ask, and print: the server's own JSON with --json, else what `for_people` prints."""
        if self.as_json:
            print_json(self.ask(call.raw()))
        else:
            for_people(self.ask(call))

    def pause(self, length_ms: int) -> None:
        """Wait between two looks at the server."""
        self._never.wait(length_ms / 1000)


def server_options(command: Command) -> Command:
    """Add --url, --token, --tenant and --json; the command gets an `Api` as its first argument.

    And --ca-file, --client-cert and --client-key.
    """

    @wraps(command)
    def with_api(url: str, token: str | None, tenant: str | None, as_json: bool, **rest: Any) -> Any:
        problems: list[FieldProblem] = []
        trust = pop_trust(rest, problems)
        if problems:
            raise ConfigError(problems)
        api = Api(url=_checked_url(url), token=_checked_token(token), tenant=tenant, as_json=as_json, trust=trust)
        return command(api, **rest)

    for option in (
        *TRUST_OPTIONS,
        click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API answers it."),
        click.option("--tenant", metavar="ID", help="Whose jobs are meant (default: the tenant `default`)."),
        click.option(
            "--token",
            envvar=f"{ENV_PREFIX}TOKEN",
            show_envvar=True,
            help="Bearer token. Better set the variable: others on this machine can read command lines.",
        ),
        click.option(
            "--url",
            envvar=f"{ENV_PREFIX}URL",
            default=DEFAULT_URL,
            show_default=True,
            show_envvar=True,
            metavar="URL",
            help="The server.",
        ),
    ):
        with_api = option(with_api)
    return with_api  # type: ignore[return-value]  # the options take the place of the parameter `api`


def _checked_url(url: str) -> str:
    try:
        return check_url(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error


def _checked_token(token: str | None) -> str | None:
    """The server's variable may hold several, separated by commas; any of them will do."""
    first = (token or "").split(",")[0].strip()
    if not first.isprintable() or not first.isascii():
        raise click.BadParameter("holds characters that no token has", param_hint="--token")
    return first or None
