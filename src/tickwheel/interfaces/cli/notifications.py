"""`tickwheel notifications`: who is told when something goes wrong."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.rule import FAILURES_DEFAULT, QUIET_SECONDS_DEFAULT
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.instants import Length
from tickwheel.interfaces.cli.output import print_fields, print_json, print_table
from tickwheel.interfaces.client import notification_calls as calls
from tickwheel.interfaces.client.notification_models import Notification, NotificationList, Tried

Command = TypeVar("Command", bound=Callable[..., Any])
_WIDE: Final = "--installation"


@click.group()
def notifications() -> None:
    """Set who is told, by webhook or e-mail, of what goes wrong.

    Events: run.dead_lettered (a run is out of attempts), job.failing (a recurring job has failed several times
    in a row), job.recovered, schedule.exhausted (it will never fire again), objective.burning (too many late
    starts).
    A rule belongs to a tenant; with --installation, to all of them.
    """


def _rule_options(command: Command) -> Command:
    """Add the options of a server and --installation; the command gets an `Api` and what the calls take."""

    @server_options
    @click.option(_WIDE, is_flag=True, help="Rules of the installation, which see all tenants.")
    @wraps(command)
    def with_owner(api: Api, /, installation: bool, **rest: Any) -> Any:
        if installation and api.tenant is not None:
            raise click.BadParameter("goes without --tenant", param_hint=_WIDE)
        return command(api, {"tenant_id": api.tenant, "installation": installation}, **rest)

    return with_owner  # type: ignore[return-value]  # the options take the place of the first parameters


@notifications.command("list")
@_rule_options
def list_(api: Api, owner: dict[str, Any]) -> None:
    """List the rules."""
    api.show(calls.list_notifications(**owner), _show_all)


@notifications.command(
    "set",
    epilog="\b\nExamples:\n"
    "  tickwheel notifications set ops --on run.dead_lettered --on job.failing --failures 5 \\\n"
    "      --webhook https://ops.example.com/tickwheel --sign-with billing\n"
    "  tickwheel notifications set nights --on schedule.exhausted --email ops@example.com --quiet 1h\n"
    "  tickwheel notifications set budget --installation --on objective.burning --email ops@example.com",
)
@click.argument("name")
@click.option(
    "--on",
    "events",
    multiple=True,
    required=True,
    type=click.Choice([kind.value for kind in Kind]),
    help="Event that is told; several allowed.",
)
@click.option("--webhook", metavar="URL", help="Address that messages are posted to.")
@click.option("--sign-with", metavar="NAME", help="Signing secret of the tenant (default: `default`, if any).")
@click.option(
    "--email", metavar="ADDRESS", multiple=True, help="Address that messages are mailed to; several allowed."
)
@click.option("--prefix", metavar="TEXT", help="Only jobs whose name begins so.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option(
    "--failures",
    type=int,
    default=FAILURES_DEFAULT,
    show_default=True,
    help="How many runs in a row make a job failing.",
)
@click.option(
    "--quiet",
    type=Length(),
    default=f"{QUIET_SECONDS_DEFAULT // 60}m",
    show_default=True,
    help="Least time between two messages about the same job.",
)
@_rule_options
def set_(
    api: Api,
    owner: dict[str, Any],
    name: str,
    events: tuple[str, ...],
    webhook: str | None,
    sign_with: str | None,
    email: tuple[str, ...],
    prefix: str | None,
    tag: str | None,
    failures: int,
    quiet: float,
) -> None:
    """Make a rule, or replace the one of that name."""
    if bool(webhook) == bool(email):
        raise click.UsageError("name either --webhook or --email; make two rules for both")
    if sign_with and not webhook:
        raise click.BadParameter("is for webhooks; mail is not signed", param_hint="--sign-with")
    to: dict[str, Any] = {"email": list(email)}
    if webhook:
        to = {"webhook": {"endpoint": webhook, "signing_secret": sign_with}}
    rule = {
        "events": list(events),
        "to": to,
        "job_name_prefix": prefix,
        "tag": tag,
        "failures": failures,
        "quiet_seconds": int(quiet),
    }
    api.show(calls.put_notification(name, rule, **owner), _show_one)


@notifications.command()
@click.argument("name")
@_rule_options
def delete(api: Api, owner: dict[str, Any], name: str) -> None:
    """Delete a rule. What it was still to say is not said any more."""
    api.ask(calls.delete_notification(name, **owner))
    if api.as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"{name} is deleted")


@notifications.command("test")
@click.argument("name")
@_rule_options
def test(api: Api, owner: dict[str, Any], name: str) -> None:
    """Send a trial message, and say what became of it. The exit code is 1 if it did not arrive."""
    tried: Tried = api.ask(calls.try_notification(name, **owner))
    if api.as_json:
        print_json(tried)
    elif tried.delivered:
        click.echo(f"delivered by {tried.sent_by}")
    else:
        click.echo(f"not delivered by {tried.sent_by}: {tried.error}", err=True)
    if not api.as_json:
        _warn(tried.warnings)
    if not tried.delivered:
        raise SystemExit(ExitCode.FAILED)


def _show_all(found: NotificationList) -> None:
    print_table(
        ("NAME", "TENANT", "EVENTS", "JOBS", "TO", "QUIET"),
        [
            (one.name, one.tenant_id or "*", ", ".join(one.events), _jobs(one), _to(one), f"{one.quiet_seconds} s")
            for one in found.notifications
        ],
        empty="There is no rule. tickwheel notifications set NAME --on EVENT makes one.",
    )


def _show_one(one: Notification) -> None:
    print_fields(
        [
            ("name", one.name),
            ("tenant", one.tenant_id or "* (all)"),
            ("events", ", ".join(one.events)),
            ("jobs", _jobs(one)),
            ("failures", str(one.failures)),
            ("to", _to(one)),
            ("quiet", f"{one.quiet_seconds} s"),
        ]
    )
    _warn(one.warnings)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def _jobs(one: Notification) -> str:
    parts = [f"{one.job_name_prefix}*"] if one.job_name_prefix else []
    return " ".join([*parts, f"#{one.tag}"] if one.tag else parts) or "all"


def _to(one: Notification) -> str:
    return one.to.webhook.endpoint if one.to.webhook is not None else ", ".join(one.to.email or ())
