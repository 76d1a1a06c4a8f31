"""`tickwheel serve`: the server for real use."""

import secrets
from dataclasses import replace

import click

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.interfaces.cli.settings_options import read_settings, settings_options


@click.command(
    epilog="\b\nExamples:\n"
    "  TICKWHEEL_TOKEN=$(head -c 24 /dev/urandom | base64) tickwheel serve --host 0.0.0.0\n"
    "  tickwheel serve --config /etc/tickwheel.toml\n"
    "  tickwheel serve --store postgresql:///jobs --processes 4"
)
@settings_options()
@click.option("--no-auth", is_flag=True, help="Ask for no token, even if one is set; on loopback addresses only.")
@click.pass_context
def serve(context: click.Context, /, no_auth: bool, **_: object) -> None:
    """Start the server for real use: API, scheduler and workers.

    All in one process, or on PostgreSQL in several (--processes) that share the port, to use several cores.

    Requests need a token (--token, or better TICKWHEEL_TOKEN, since command lines can be read by others on the
    machine). Without one it listens on loopback addresses only. Webhooks may not call loopback or private
    addresses unless you allow it. SIGTERM drains: running work gets the grace time, the rest is handed back.
    """
    settings = checked(read_settings(context), no_auth=no_auth)
    from tickwheel.interfaces.cli.process import Mode, run_process

    mode = Mode(with_echo=False, with_console=False, banner=banner)
    if settings.processes == 1:
        run_process(settings, mode)
        return
    from tickwheel.interfaces.cli.supervisor import run_processes

    run_processes(settings, mode)


def checked(settings: Settings, *, no_auth: bool) -> Settings:
    """The settings as `serve` uses them. Raises `ConfigError` when others could reach an open API."""
    if no_auth:
        if not settings.loopback_only:
            raise ConfigError(
                [
                    FieldProblem(
                        "no-auth",
                        f"an open API may listen on loopback only, not on {settings.host}; leave --no-auth out "
                        "and set a token, or listen on --host 127.0.0.1",
                    )
                ]
            )
        return replace(settings, token=())
    if not settings.token and not settings.loopback_only:
        raise ConfigError(
            [
                FieldProblem(
                    "token",
                    f"is missing, and everybody who reaches {settings.host} could schedule jobs; set one "
                    f"(for example TICKWHEEL_TOKEN={secrets.token_urlsafe(24)}), or listen on --host 127.0.0.1",
                )
            ]
        )
    return settings


def banner(url: str, settings: Settings) -> str:
    """One line, and a second one when the API is open."""
    line = f"Tickwheel is running at {url}"
    if not settings.token:
        line += "\nThere is no token: everybody on this machine can use the API."
    return line
