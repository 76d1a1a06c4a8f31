"""`tickwheel migrate`: brings the schema up to date before the server does it, and makes a restored store safe."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tickwheel.config import Settings
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.output import print_json
from tickwheel.interfaces.cli.settings_options import ALL, read_settings, settings_options

if TYPE_CHECKING:
    from tickwheel.wiring import SchemaStep

_WANTED = frozenset({"data", "store"})


@click.command(
    epilog="\b\nExamples:\n  tickwheel migrate --plan\n"
    "  tickwheel migrate --check || echo 'the database is behind this version'\n"
    "  tickwheel migrate --after-restore"
)
@settings_options(leave_out=frozenset(ALL) - _WANTED)
@click.option(
    "--check", is_flag=True, help="Change nothing; exit with 1 if there is something to do, and say what."
)
@click.option("--plan", is_flag=True, help="Change nothing; print the SQL of what would be done.")
@click.option(
    "--after-restore",
    is_flag=True,
    help="For a store that was restored, or may have lost commits in a failover: raise all epochs by 1024, so "
    "that fencing tokens go on rising. Before any node starts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def migrate(
    context: click.Context, /, check: bool, plan: bool, after_restore: bool, as_json: bool, **_: object
) -> None:
    """Bring the database to this version's schema. Starting the server does the same.

    Migrations only go forward, each in one transaction. Make a backup first. Two may run at once: the second finds
    nothing to do.
    """
    only_look = check or plan
    if only_look and after_restore:
        raise click.UsageError("--after-restore changes the store; --check and --plan change nothing")
    settings = read_settings(context)
    from tickwheel.wiring import after_restore as make_safe
    from tickwheel.wiring import pending_steps, shown_store, store_url

    shown, url = shown_store(settings), store_url(settings)
    steps = pending_steps(url)
    applied = [] if only_look else _apply(settings, url, [step.label for step in steps])
    if after_restore:
        make_safe(url)
    if as_json:
        pending = [step.label for step in steps] if only_look else []
        print_json({"store": shown, "pending": pending, "applied": applied, "epochs_raised": after_restore})
    elif plan:
        _print_sql(shown, steps)
    else:
        _tell(shown, [step.label for step in steps] if only_look else applied, only_look=only_look)
        if after_restore:
            click.echo("All epochs were raised: nodes may start now.")
    if check and steps:
        raise SystemExit(ExitCode.FAILED)


def _apply(settings: Settings, url: str, pending: Sequence[str]) -> Sequence[str]:
    """Gives what was done here; where another process was faster, that is less than what was pending."""
    from tickwheel.wiring import is_shared, migrate_shared_store, open_store, system_clock

    if not pending:
        return []
    if is_shared(url):
        return migrate_shared_store(url)

    async def apply() -> None:
        store = await open_store(url, system_clock())
        await store.aclose()

    try:
        asyncio.run(apply())
    except OSError as error:
        raise Failure([f"{settings.data}: {error.strerror or error}"]) from error
    return pending


def _tell(shown: str, steps: Sequence[str], *, only_look: bool) -> None:
    if not steps:
        click.echo(f"{shown} is up to date")
        return
    click.echo(f"{shown}: {'to do' if only_look else 'done'}")
    for step in steps:
        click.echo(f"  {step}")


def _print_sql(shown: str, steps: "Sequence[SchemaStep]") -> None:
    if not steps:
        click.echo(f"-- {shown} is up to date")
    for step in steps:
        click.echo(f"-- {step.label}\n{step.sql.rstrip()}\n")
