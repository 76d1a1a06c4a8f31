"""`tickwheel migrate`: brings the schema up to date before the server does it by itself."""

import asyncio

import click

from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.output import print_json
from tickwheel.interfaces.cli.settings_options import ALL, read_settings, settings_options

_WANTED = frozenset({"data", "store"})


@click.command(
    epilog="\b\nExamples:\n  tickwheel migrate --plan\n"
    "  tickwheel migrate --check || echo 'the database is behind this version'"
)
@settings_options(leave_out=frozenset(ALL) - _WANTED)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if there is something to do.")
@click.option("--plan", is_flag=True, help="Change nothing; list what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def migrate(context: click.Context, /, check: bool, plan: bool, as_json: bool, **_: object) -> None:
    """Bring the database to this version's schema. Starting the server does the same.

    Migrations only go forward, each in one transaction. Make a backup first.
    """
    settings = read_settings(context)
    from tickwheel.wiring import open_store, pending_migrations, store_url, system_clock

    url = store_url(settings)
    pending = pending_migrations(url)
    only_look = check or plan
    if pending and not only_look:

        async def apply() -> None:
            store = await open_store(url, system_clock())
            await store.aclose()

        try:
            asyncio.run(apply())
        except OSError as error:
            raise Failure([f"{settings.data}: {error.strerror or error}"]) from error
    if as_json:
        print_json(
            {"store": url, "pending": pending if only_look else [], "applied": [] if only_look else pending}
        )
    else:
        _tell(url, pending, only_look=only_look)
    if check and pending:
        raise SystemExit(ExitCode.FAILED)


def _tell(url: str, pending: list[str], *, only_look: bool) -> None:
    if not pending:
        click.echo(f"{url} is up to date")
        return
    click.echo(f"{url}: {'to do' if only_look else 'done'}")
    for step in pending:
        click.echo(f"  {step}")
