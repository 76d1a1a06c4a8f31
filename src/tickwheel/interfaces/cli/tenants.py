"""`tickwheel tenants`: limits, shares and egress policies of tenants, on a running server or in a store."""

import asyncio
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click
from msgspec.structs import asdict

from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.keeping import kept_there, means_store, store_settings
from tickwheel.interfaces.cli.output import print_fields, print_json, print_table
from tickwheel.interfaces.cli.tenant_flags import changed, record_flags
from tickwheel.interfaces.cli.tenant_keepers import Record, ServerTenants, StoredTenants, TenantKeeper
from tickwheel.interfaces.client.tenant_models import Egress, Limits, Tenant, TenantUsage

Command = TypeVar("Command", bound=Callable[..., Any])
STORE_FLAGS: Final = ("store", "data")
_UNLIMITED: Final = "unlimited"


@click.group()
def tenants() -> None:
    """Set and show what tenants may use.

    A tenant needs no record: without one it has the defaults, which --defaults names.

    With --store or --data the store itself is asked. So it is when neither a server (--url, TICKWHEEL_URL) nor a
    token is named. Else the server is asked.
    """


def keeper_options(command: Command) -> Command:
    """Add the options of a server, and --store and --data; the command gets a `TenantKeeper` and an `Api`."""

    @server_options
    @click.option("--data", metavar="DIR", help="Data folder of an embedded store that no server is using.")
    @click.option("--store", envvar="TICKWHEEL_STORE", show_envvar=True, metavar="URL", help="The store.")
    @click.pass_context
    @wraps(command)
    def with_keeper(context: click.Context, api: Api, /, store: str | None, data: str | None, **rest: Any) -> Any:
        given = {name: value for name, value in (("store", store), ("data", data)) if value is not None}
        keeper: TenantKeeper = ServerTenants(api)
        if means_store(context, STORE_FLAGS):
            keeper = StoredTenants(kept_there(context, store_settings(given)))
        return command(keeper, api, **rest)

    return with_keeper  # type: ignore[return-value]  # the options take the place of the first parameters


def _who(command: Command) -> Command:
    """Add TENANT and --defaults; the command gets `tenant_id`, None for the defaults."""

    @click.argument("name", metavar="[TENANT]", required=False)
    @click.option("--defaults", is_flag=True, help="What all tenants have whose own record says nothing else.")
    @wraps(command)
    def with_tenant(*before: Any, name: str | None, defaults: bool, **rest: Any) -> Any:
        api = next(one for one in before if isinstance(one, Api))
        return command(*before, tenant_id=_named(api, name, defaults=defaults), **rest)

    return with_tenant  # type: ignore[return-value]  # the options take the place of `tenant_id`


def _named(api: Api, tenant: str | None, *, defaults: bool = False) -> str | None:
    named = {name for name in (tenant, api.tenant) if name is not None}
    if len(named) + defaults != 1:
        raise click.UsageError("name one tenant, or --defaults" if not named else "name one of them only")
    if defaults:
        return None
    [tenant_id] = named
    fault = tenant_fault(tenant_id)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="TENANT")
    return tenant_id


@tenants.command("list")
@keeper_options
def list_(keeper: TenantKeeper, api: Api) -> None:
    """List tenants that have a record, with what holds for them; * has the defaults."""
    found = asyncio.run(keeper.list())
    if api.as_json:
        print_json(found)
        return
    rows = [] if found.defaults is None or found.defaults.version is None else [("*", found.defaults)]
    names = [(one.tenant_id, one) for one in found.tenants]
    print_table(
        ("TENANT", "JOBS", "REQUESTS/S", "DUE/S", "IN FLIGHT", "WEIGHT", "STATE", "NOTE"),
        [
            (
                name,
                *map(_figure, (limits.max_jobs, limits.requests_per_second, limits.due_per_second)),
                *map(_figure, (limits.concurrency, limits.weight)),
                _state(disabled=disabled),
                one.note,
            )
            for name, one in [*rows, *names]
            for limits, _, disabled in [_effective(one)]
        ],
        empty="No tenant has a record. tickwheel tenants set NAME --max-jobs 1000 makes one.",
    )


@tenants.command()
@keeper_options
@_who
def show(keeper: TenantKeeper, api: Api, tenant_id: str | None) -> None:
    """Show a tenant's record and what holds for it."""
    _tell(api, asyncio.run(keeper.get(tenant_id)))


@tenants.command(
    "set",
    epilog="\b\nExamples:\n"
    "  tickwheel tenants set acme --max-jobs 100000 --requests-per-second 200 --concurrency 50\n"
    "  tickwheel tenants set acme --max-jobs none --note 'pays for more'\n"
    "  tickwheel tenants set acme --allow '*.acme.example' --allow 203.0.113.0/24\n"
    "  tickwheel tenants set acme --disable\n"
    "  tickwheel tenants set --defaults --max-payload-bytes 65536",
)
@record_flags
@keeper_options
@_who
def set_(keeper: TenantKeeper, api: Api, tenant_id: str | None, **flags: Any) -> None:
    """Change a tenant's record: what the flags name, and nothing else. `none` takes a limit out of it again.

    It holds at once on the server that is asked, on all others within about a second.
    """

    async def change() -> Record:
        before = await keeper.get(tenant_id)
        return await keeper.put(tenant_id, changed(before, flags), before.version)

    _tell(api, asyncio.run(change()))


@tenants.command()
@keeper_options
@_who
def delete(keeper: TenantKeeper, api: Api, tenant_id: str | None) -> None:
    """Delete a tenant's record: it has the defaults then. Its jobs, keys and secrets stay."""
    asyncio.run(keeper.delete(tenant_id))
    if api.as_json:
        print_json({"tenant_id": tenant_id, "deleted": True})
    else:
        click.echo("the defaults are deleted" if tenant_id is None else f"the record of {tenant_id} is deleted")


@tenants.command()
@click.argument("name", metavar="[TENANT]", required=False)
@keeper_options
def usage(keeper: TenantKeeper, api: Api, name: str | None) -> None:
    """Show every limit of a tenant, and what is used of it.

    Requests, payloads and refusals are what the server that answers has seen; of a store alone they are not known.
    """
    found = asyncio.run(keeper.usage(_named(api, name) or ""))
    if api.as_json:
        print_json(found)
    else:
        _show_usage(found)


def _show_usage(found: TenantUsage) -> None:
    print_table(
        ("LIMIT", "ALLOWED", "USED", "REFUSED"),
        [
            (
                one.limit,
                _UNLIMITED if one.allowed is None else f"{one.allowed:,}",
                None if one.used is None else f"{'at least ' if one.at_least else ''}{one.used:,}",
                f"{found.refused.get(one.limit, 0):,}",
            )
            for one in found.limits
        ],
        empty="",
    )
    if found.disabled:
        click.echo(f"{found.tenant_id} is disabled: its requests are refused, and its runs wait.", err=True)


def _tell(api: Api, record: Record) -> None:
    if api.as_json:
        print_json(record)
        return
    limits, egress, disabled = _effective(record)
    is_tenant = isinstance(record, Tenant)
    print_fields(
        [
            ("tenant", record.tenant_id if isinstance(record, Tenant) else "the defaults of all tenants"),
            ("state", _state(disabled=disabled)),
            ("note", record.note),
            *_limit_lines(limits, record.limits if is_tenant else None),
            *_egress_lines(egress),
            ("changed", short(record.updated_at) if record.updated_at else "never: it has no record"),
        ]
    )


def _effective(record: Record) -> tuple[Limits, Egress | None, bool]:
    """What holds."""
    holds = record.effective if isinstance(record, Tenant) else record
    return holds.limits, holds.egress, holds.disabled


def _state(*, disabled: bool) -> str:
    return "disabled" if disabled else "enabled"


def _limit_lines(limits: Limits, own: Limits | None) -> Sequence[tuple[str, object]]:
    """Those that are set; where a record has them from the defaults, it says so."""
    lines = []
    for name, value in asdict(limits).items():
        if value is not None:
            inherited = own is not None and getattr(own, name) is None
            lines.append((name, f"{_figure(value)} (from the defaults)" if inherited else _figure(value)))
    return lines or [("limits", "none")]


def _figure(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _egress_lines(egress: Egress | None) -> Sequence[tuple[str, object]]:
    if egress is None:
        return [("egress", "as the server's settings say")]
    return [
        ("may call", "any host" if egress.allow is None else ", ".join(egress.allow) or "nothing"),
        ("private networks", None if egress.allow_private is None else ", ".join(egress.allow_private) or "none"),
        ("proxy", egress.proxy),
    ]
