"""`tickwheel dev`: everything in one process on this machine, open and talkative."""

import json
from typing import Any, Final

import click

from tickwheel.config import DEFAULT_PORT, ENV_PREFIX, Settings
from tickwheel.domain.redaction import redacted
from tickwheel.interfaces.cli.settings_options import read_settings, settings_options

DEFAULT_URL: Final = f"http://127.0.0.1:{DEFAULT_PORT}"
INSISTS: Final[dict[str, Any]] = {
    "host": "127.0.0.1",
    "token": (),
    "auth": False,
    "allow_loopback": True,
    "processes": 1,
}


@click.command(epilog="\b\nExamples:\n  tickwheel dev\n  tickwheel dev --port 9000 --data /tmp/try --app app:app")
@settings_options(leave_out=INSISTS)
@click.pass_context
def dev(context: click.Context, /, **_: object) -> None:
    """Start everything on this machine, to try it out and to develop.

    API, scheduler and worker run in this one process. It listens on 127.0.0.1 only, needs no token, and lets
    webhooks call this machine. It prints three commands to copy, then one line per run. Ctrl-C drains and stops.

    --app names the module with your Python handlers, as in `app` or `app:handlers`.
    """
    settings = read_settings(context, INSISTS)
    from tickwheel.interfaces.cli.process import Mode, run_process

    run_process(settings, Mode(with_echo=True, with_console=True, banner=banner))


def banner(url: str, settings: Settings, *, is_open: bool = True) -> str:
    """What is printed once it runs: where it is, and three lines to paste."""
    store = redacted(settings.store) or f"{settings.data}/"
    lines = [
        f"Tickwheel is running at {url}  (API reference: {url}/docs, data: {store})",
        "",
        "Try it from another terminal; each line schedules a call of the built-in target /echo.",
    ]
    for title, job in examples(url):
        lines += ["", f"# {title}", curl_line(url, job)]
    if url != DEFAULT_URL:
        lines += ["", "# so that `tickwheel jobs list`, `tickwheel tail` and the others find it"]
        lines.append(f"export {ENV_PREFIX}URL={url}")
    return "\n".join([*lines, "", "One line per run follows. Ctrl-C stops.", ""])


def examples(url: str) -> list[tuple[str, dict[str, Any]]]:
    """(title, request) of the three jobs."""
    target = {"endpoint": f"{url}/echo"}
    return [
        (
            "in five seconds, once",
            {
                "job_name": "hello",
                "schedule_type": "DELAYED",
                "delay_seconds": 5,
                "target": target,
                "payload": {"message": "five seconds later"},
            },
        ),
        (
            "each minute, by cron",
            {
                "job_name": "each-minute",
                "schedule_type": "CRON",
                "cron_expression": "* * * * *",
                "target": target,
            },
        ),
        (
            "now",
            {
                "job_name": "right-now",
                "schedule_type": "INSTANT",
                "target": target,
                "payload": {"order_id": "ord-8812"},
            },
        ),
    ]


def curl_line(url: str, job: dict[str, Any]) -> str:
    """One line for any POSIX shell; the JSON holds no single quotes."""
    body = json.dumps(job, separators=(",", ":"))
    return f"curl -sS -w '\\n' {url}/v1/jobs -H 'Content-Type: application/json' -d '{body}'"
