"""`tickwheel serve`: the server for real use."""

import click

from tickwheel.config import Settings
from tickwheel.interfaces.cli.checks_tokens import check_tokens
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.settings_options import read_settings, settings_options


@click.command(
    epilog="\b\nExamples:\n"
    "  tickwheel tokens create --role admin --all-tenants\n"
    "  tickwheel serve --host 0.0.0.0\n"
    "  tickwheel serve --config /etc/tickwheel.toml\n"
    "  tickwheel serve --store postgresql:///jobs --processes 4"
)
@settings_options()
@click.pass_context
def serve(context: click.Context, /, **_: object) -> None:
    """Start the server for real use: API, scheduler and workers.

    All in one process, or on PostgreSQL in several (--processes) that share the port, to use several cores.

    Requests need a token as soon as one is set up: an API key (tickwheel tokens create), the variable
    TICKWHEEL_TOKEN, or an issuer of JSON Web Tokens (--jwt-keys). Without any it listens on loopback addresses
    only. Webhooks may not call loopback or private addresses unless you allow it. SIGTERM drains: running work
    gets the grace time, the rest is handed back.
    """
    settings = read_settings(context)
    for fault in check_tokens(settings):
        raise Failure([f"{fault.name}: {fault.text}", fault.remedy], ExitCode.USAGE)
    from tickwheel.interfaces.cli.process import Mode, run_process

    mode = Mode(with_echo=False, with_console=False, banner=banner)
    if settings.processes == 1:
        run_process(settings, mode)
        return
    from tickwheel.interfaces.cli.supervisor import run_processes

    run_processes(settings, mode)


def banner(url: str, settings: Settings, *, is_open: bool) -> str:
    """One line, and a second one when the API is open."""
    line = f"Tickwheel is running at {url}"
    if is_open:
        line += "\nNobody is asked for a token: everybody on this machine can use the API."
    return line
