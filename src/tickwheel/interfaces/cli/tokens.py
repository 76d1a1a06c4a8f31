"""`tickwheel tokens`: API keys, on a running server or in a store."""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tickwheel.config import ENV_PREFIX
from tickwheel.domain.access import Role, Scope
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.failures import Failure
from tickwheel.interfaces.cli.instants import Length, short
from tickwheel.interfaces.cli.keeping import kept_there, means_store, store_settings
from tickwheel.interfaces.cli.output import print_fields, print_json, print_table
from tickwheel.interfaces.cli.token_keepers import Keeper, ServerKeeper, StoreKeeper
from tickwheel.interfaces.client.models import Token

Command = TypeVar("Command", bound=Callable[..., Any])
_STORE_FLAGS: Final = ("store", "data")
_GRACE: Final = "1d"


@click.group()
def tokens() -> None:
    """Make, rotate and revoke API keys.

    With --store or --data the store itself is asked, which is how the first key is made. So it is when neither a
    server (--url, TICKWHEEL_URL) nor a token is named. Else the server is asked.
    """


def keeper_options(command: Command) -> Command:
    """Add the options of a server, and --store and --data; the command gets a `Keeper` and an `Api`."""

    @server_options
    @click.option("--data", metavar="DIR", help="Data folder of an embedded store that no server is using.")
    @click.option("--store", envvar=f"{ENV_PREFIX}STORE", show_envvar=True, metavar="URL", help="The store.")
    @click.pass_context
    @wraps(command)
    def with_keeper(context: click.Context, api: Api, /, store: str | None, data: str | None, **rest: Any) -> Any:
        flags = {"store": store, "data": data}
        given = {name: value for name, value in flags.items() if value is not None}
        keeper: Keeper = ServerKeeper(api)
        if means_store(context, _STORE_FLAGS):
            keeper = StoreKeeper(kept_there(context, store_settings(given)), api.tenant)
        return command(keeper, api, **rest)

    return with_keeper  # type: ignore[return-value]  # the options take the place of the first parameters


@tokens.command("list")
@keeper_options
def list_(keeper: Keeper, api: Api) -> None:
    """List API keys, oldest first. --tenant shows one tenant's."""
    found = asyncio.run(keeper.list())
    if api.as_json:
        print_json({"tokens": found})
        return
    print_table(
        ("TOKEN", "LABEL", "TENANT", "ROLE", "CREATED", "EXPIRES", "LAST USED"),
        [
            (
                one.token_id,
                one.label,
                one.tenant_id or "*",
                one.role,
                short(one.created_at),
                short(one.expires_at),
                short(one.last_used_at),
            )
            for one in found
        ],
        empty="There is no API key. tickwheel tokens create --role admin --all-tenants makes the first one.",
    )


@tokens.command(
    epilog="\b\nExamples:\n"
    "  tickwheel tokens create --role admin --all-tenants --label ops\n"
    "  tickwheel tokens create --role scheduler --tenant shop --expires-in 90d\n"
    "  tickwheel tokens create --role reader --scope jobs:read"
)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="What it may do: read; schedule, too; operate, too; all; or execute runs, and nothing else.",
)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="Only this of the role; several allowed.",
)
@click.option("--label", default="", help="What it is for; shown in lists.")
@click.option(
    "--expires-in",
    type=Length(),
    help="How long it holds, such as 90d or 12h (default: for ever).",
)
@click.option("--all-tenants", is_flag=True, help="For the whole installation, not for one tenant.")
@keeper_options
def create(
    keeper: Keeper,
    api: Api,
    role: str,
    scopes: tuple[str, ...],
    label: str,
    expires_in: float | None,
    all_tenants: bool,
) -> None:
    """Make an API key, for the tenant `default` or the one of --tenant. It is shown once."""
    if all_tenants and api.tenant:
        raise click.UsageError("name a --tenant, or --all-tenants")
    fields = {
        "role": role,
        "scopes": list(scopes) or None,
        "label": label,
        "tenant_id": api.tenant,
        "all_tenants": all_tenants or None,
        "expires_in_seconds": None if expires_in is None else int(expires_in),
    }
    _tell(api, asyncio.run(keeper.create(fields)))


@tokens.command()
@click.argument("token_id")
@click.option(
    "--grace",
    type=Length(),
    default=_GRACE,
    show_default=True,
    help="How long the old secret still holds.",
)
@keeper_options
def rotate(keeper: Keeper, api: Api, token_id: str, grace: float) -> None:
    """Give an API key a new secret, which is shown once; the old one holds for a while more."""
    _tell(api, asyncio.run(keeper.rotate(_public_part(token_id), int(grace))))


@tokens.command()
@click.argument("token_id")
@keeper_options
def revoke(keeper: Keeper, api: Api, token_id: str) -> None:
    """Make an API key worthless: at once, on other nodes within about a second."""
    key_id = _public_part(token_id)
    asyncio.run(keeper.revoke(key_id))
    if api.as_json:
        print_json({"token_id": key_id, "revoked": True})
    else:
        click.echo(f"{key_id} is revoked")


def _public_part(text: str) -> str:
    """The id in what may be a whole key; so that none is sent, or shown in an error, where an id is meant."""
    parts = text.split("_")
    key_id = parts[1] if len(parts) == 3 and parts[0] == "tw" else text
    if not (key_id.isascii() and key_id.isalnum()):
        raise click.BadParameter("is no id of a key: those have letters and digits only", param_hint="TOKEN_ID")
    return key_id


def _tell(api: Api, made: Token) -> None:
    if made.token is None:
        raise Failure(["the server's answer has no token in it"])
    if api.as_json:
        print_json(made)
        return
    click.echo(made.token)
    fields = [
        ("id", made.token_id),
        ("tenant", made.tenant_id or "all of them"),
        ("role", made.role),
        ("scopes", ", ".join(made.scopes)),
        ("expires", short(made.expires_at) if made.expires_at else "never"),
        ("old secret holds until", short(made.old_secret_until) if made.old_secret_until else None),
    ]
    click.echo("This is the only time that it is shown. Send it as: Authorization: Bearer <token>", err=True)
    print_fields(fields)
