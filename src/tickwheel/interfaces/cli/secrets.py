"""`tickwheel secrets`: signing secrets, on a server or in a store, and the keys that stored secrets are under."""

import asyncio
import sys
from collections.abc import Callable
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from tickwheel.config import Settings
from tickwheel.config.secret_keys import parse_secret_key
from tickwheel.domain.requests.target_rules import secret_name_fault
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.instants import Length, short
from tickwheel.interfaces.cli.keeping import act_of, explained, kept_there, means_store, store_settings
from tickwheel.interfaces.cli.output import print_fields, print_json, print_table
from tickwheel.interfaces.cli.secret_keepers import SecretKeeper, ServerSecrets, StoredSecrets
from tickwheel.interfaces.cli.settings_options import ALL, settings_options
from tickwheel.interfaces.client.models import Secret

if TYPE_CHECKING:
    from tickwheel.services.resealing import Resealed

Command = TypeVar("Command", bound=Callable[..., Any])
STORE_FLAGS: Final = ("store", "data", "secrets_key", "secrets_key_file", "secrets_key_command")
_OVERLAP: Final = "1d"
_VALUE_CHARS: Final = 1_000


@click.group()
def secrets() -> None:
    """Make and rotate signing secrets; keys of stored secrets.

    Webhooks are signed with signing secrets; header values and these secrets are stored sealed under a key.
    A signing secret belongs to a tenant and has a name, by which its jobs choose it (`jobs create
    --sign-with`). The one called `default` signs what names none.

    With --store or --data the store itself is asked. So it is when neither a server (--url, TICKWHEEL_URL) nor a
    token is named. Else the server is asked.
    """


def _store_options(command: Command) -> Command:
    """Add the flags of a store and of its keys; the command gets what reads its settings, last."""

    @settings_options(leave_out=frozenset(ALL) - set(STORE_FLAGS))
    @click.pass_context
    @wraps(command)
    def with_settings(context: click.Context, /, *before: Any, **rest: Any) -> Any:
        given = {name: rest.pop(name) for name in STORE_FLAGS}
        named = {name: value for name, value in given.items() if _is_on_command_line(context, name)}
        config_file = rest.pop("config")
        return command(*before, lambda: store_settings(named, config_file), **rest)

    return with_settings  # type: ignore[return-value]  # the options take the place of the first parameter


def _is_on_command_line(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def keeper_options(command: Command) -> Command:
    """Add the options of a server and of a store; the command gets a `SecretKeeper` and an `Api`."""

    @server_options
    @_store_options
    @click.pass_context
    @wraps(command)
    def with_keeper(context: click.Context, api: Api, settings: Callable[[], Settings], /, **rest: Any) -> Any:
        keeper: SecretKeeper = ServerSecrets(api)
        if means_store(context, STORE_FLAGS):
            keeper = StoredSecrets(kept_there(context, settings()), api.tenant, _warn)
        return command(keeper, api, **rest)

    return with_keeper  # type: ignore[return-value]  # the options take the place of the first parameters


def _checked_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """The name of a secret that is there: it becomes a part of a path."""
    fault = secret_name_fault(name)
    if fault is not None:
        raise click.BadParameter(fault)
    return name


def _value_option(command: Command) -> Command:
    return click.option(
        "--value-from",
        "file",
        type=click.File("r"),
        help="File with a value of yours (whsec_...), - for standard input; else the value is random.",
    )(command)


@secrets.command("list")
@keeper_options
def list_(keeper: SecretKeeper, api: Api) -> None:
    """List a tenant's signing secrets, and until when an old key signs along."""
    found = asyncio.run(keeper.list())
    if api.as_json:
        print_json({"secrets": [_shown(one) for one in found]})
        return
    print_table(
        ("NAME", "TENANT", "KEY", "SINCE", "OLD KEY UNTIL"),
        [
            (
                one.name,
                one.tenant_id,
                one.keys[0].id if one.keys else "-",
                short(one.keys[0].created_at) if one.keys else "-",
                short(one.keys[1].until) if len(one.keys) > 1 else "-",
            )
            for one in found
        ],
        empty="There is no signing secret. tickwheel secrets create NAME makes one.",
    )


@secrets.command(
    epilog="\b\nExamples:\n"
    "  tickwheel secrets create default\n"
    "  tickwheel secrets create billing --tenant shop --value-from billing.whsec"
)
@click.argument("name")
@_value_option
@keeper_options
def create(keeper: SecretKeeper, api: Api, name: str, file: IO[str] | None) -> None:
    """Make a signing secret, of the tenant `default` or the one of --tenant. Its value is shown once."""
    _tell(api, asyncio.run(keeper.create(name, _value_of(file))))


@secrets.command()
@click.argument("name", callback=_checked_name)
@_value_option
@click.option(
    "--overlap",
    type=Length(),
    default=_OVERLAP,
    show_default=True,
    help="How long the old key signs along, 30 days at most; 0 drops it at once.",
)
@keeper_options
def rotate(keeper: SecretKeeper, api: Api, name: str, file: IO[str] | None, overlap: float) -> None:
    """Give a signing secret a new key, whose value is shown once; the old one signs along for a while."""
    from tickwheel.services.signing_secrets import OVERLAP_SECONDS_MAX

    if overlap > OVERLAP_SECONDS_MAX:
        raise click.BadParameter("is more than 30 days", param_hint="--overlap")
    _tell(api, asyncio.run(keeper.rotate(name, _value_of(file), int(overlap))))


@secrets.command()
@click.argument("name", callback=_checked_name)
@keeper_options
def delete(keeper: SecretKeeper, api: Api, name: str) -> None:
    """Forget a signing secret. Attempts of jobs that name it fail from then on, to be tried again."""
    asyncio.run(keeper.delete(name))
    if api.as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"{name} is deleted")


@secrets.command(
    epilog="\b\nExamples:\n"
    "  (umask 077; tickwheel secrets keygen > secrets.keys)\n"
    "  tickwheel secrets keygen --id 2026-01"
)
@click.option("--id", "key_id", default="", metavar="ID", help="Its name, such as a date (default: random).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def keygen(key_id: str, as_json: bool) -> None:
    """Print a new key for stored secrets, as --secrets-key and files of keys take it: ID:BASE64.

    Nothing is changed or kept. Without the key, what is sealed under it is lost: keep a copy, apart from the
    backups of the database.
    """
    from tickwheel.wiring import make_key_line

    line = make_key_line(key_id)
    try:
        key = parse_secret_key(line)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--id") from None
    if as_json:
        print_json({"id": key.id, "key": line})
    else:
        click.echo(line)


@secrets.command(
    epilog="\b\nExamples:\n"
    "  tickwheel secrets reseal --data .tickwheel\n"
    "  tickwheel secrets reseal --store postgresql://app@db/jobs --secrets-key-file secrets.keys"
)
@_store_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reseal(settings: Callable[[], Settings], as_json: bool) -> None:
    """Seal all stored secrets under the first key, so that older keys can be thrown away.

    Works on the store itself: header values of all jobs, keys of all signing secrets. On PostgreSQL nodes may go
    on meanwhile, if they have both keys. The exit code is 1 if something can't be opened; it is left as it was.
    """
    from tickwheel.wiring import reseal_store

    shows = sys.stderr.isatty() and not as_json
    with click.progressbar(length=1, label="Sealing", file=sys.stderr, hidden=not shows) as bar:

        def expect(count: int) -> None:
            bar.length = max(1, count)

        with explained("stop it for the while"):
            done = asyncio.run(reseal_store(settings(), act_of("secret.reseal"), expect, bar.update))
    if as_json:
        print_json({"ok": not done.left_count, **_fields(done), "left": list(done.left)})
    else:
        print_fields([(name.replace("_", " "), f"{count:,}") for name, count in _fields(done).items()])
        for line in done.left:
            click.echo(f"  {line}")
    if done.left_count:
        raise SystemExit(ExitCode.FAILED)


def _fields(done: "Resealed") -> dict[str, int]:
    return {
        "jobs_looked_at": done.jobs_seen,
        "jobs_sealed_anew": done.jobs_sealed,
        "signing_secrets_sealed_anew": done.secrets_sealed,
        "left_as_they_were": done.left_count,
    }


def _value_of(file: IO[str] | None) -> str | None:
    return None if file is None else file.read(_VALUE_CHARS).strip()


def _shown(secret: Secret) -> dict[str, Any]:
    """As the API shows one in a list: without a value."""
    return {"name": secret.name, "tenant_id": secret.tenant_id, "keys": secret.keys}


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _tell(api: Api, made: Secret) -> None:
    if made.value is None:
        raise Failure(["the server's answer has no value in it"])
    if api.as_json:
        print_json(made)
        return
    click.echo(made.value)
    click.echo("This is the only time that it is shown. Receivers check signatures with it.", err=True)
    old = made.keys[1].until if len(made.keys) > 1 else None
    print_fields(
        [
            ("name", made.name),
            ("tenant", made.tenant_id),
            ("old key signs until", short(old) if old else None),
        ]
    )
