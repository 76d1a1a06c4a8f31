"""The flags that describe a job, for `jobs create` and `jobs edit`, and the request made of them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.interfaces.cli.instants import Length

Command = TypeVar("Command", bound=Callable[..., Any])

_FLAGS: Final = (
    click.option("--name", help="A name for people."),
    click.option("--in", "delay", type=Length(), metavar="LENGTH", help="Once, after this long: 45m, 1h30m, 90s."),
    click.option("--at", metavar="ISO", help="Once, at this instant: 2026-10-22T14:30:00Z."),
    click.option("--cron", metavar="EXPR", help="Again and again: five fields, or six with seconds first."),
    click.option("--tz", metavar="ZONE", help="The zone whose clock --cron means (default: UTC)."),
    click.option("--endpoint", metavar="URL", help="Call this address."),
    click.option("--handler", metavar="NAME", help="Call this Python handler of the server."),
    click.option("--method", help="HTTP method of the call (default: POST)."),
    click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Send this header; repeatable."),
    click.option("--sign-with", metavar="NAME", help="Sign with this signing secret (default: `default`)."),
    click.option(
        "--timeout", type=Length(), metavar="LENGTH", help="How long one attempt may take (default: 30s)."
    ),
    click.option("--payload", metavar="JSON|@FILE|-", help="What is handed over; - reads standard input."),
    click.option("--priority", metavar="LANE", help="CRITICAL, HIGH, DEFAULT or LOW."),
    click.option("--retries", type=int, help="Attempts after the first one (default: 3)."),
    click.option("--tag", "tags", multiple=True, help="A word to find it by; repeatable."),
    click.option("--catch-up", metavar="POLICY", help="After downtime: fire_once, fire_all or skip."),
    click.option("--overlap", metavar="RULE", help="While an earlier run goes on: allow, skip or buffer_one."),
    click.option(
        "--concurrency",
        multiple=True,
        metavar="LIMIT",
        help="Runs in flight at a time: key:TEXT=N, job_name=N or tenant=N; N/1 lets one wait; repeatable.",
    ),
    click.option("--deadline", type=Length(), metavar="LENGTH", help="Skip a run that starts later than this."),
    click.option("--start-at", metavar="ISO", help="No occurrence before it."),
    click.option("--end-at", metavar="ISO", help="No occurrence from it on."),
)


def job_flags(command: Command) -> Command:
    """Add the flags; the command gets them as keyword arguments for `read_flags`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def read_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """The API's fields of what was given; a flag that is not there leaves its field out.

    Raises `InvalidRequest` that names every flag that is wrong. Bounds are the server's to check.
    """
    problems: list[FieldProblem] = []
    fields = {
        "job_name": flags["name"],
        "delay_seconds": flags["delay"],
        "execute_at": flags["at"],
        "cron_expression": flags["cron"],
        "timezone": flags["tz"],
        "target": _target(flags, problems),
        "payload": _payload(flags["payload"], problems),
        "priority": _upper(flags["priority"]),
        "retry_policy": None if flags["retries"] is None else {"max_retries": flags["retries"]},
        "tags": list(flags["tags"]) or None,
        "catch_up": None if flags["catch_up"] is None else {"policy": flags["catch_up"]},
        "overlap": flags["overlap"],
        "concurrency": [_limit(text, problems) for text in flags["concurrency"]] or None,
        "deadline_seconds": flags["deadline"],
        "start_at": flags["start_at"],
        "end_at": flags["end_at"],
    }
    if problems:
        raise InvalidRequest(problems)
    return {name: value for name, value in fields.items() if value is not None}


def given_flags(flags: dict[str, Any]) -> list[str]:
    """The names of the flags that were given."""
    return [f"--{name.replace('_', '-')}" for name, value in flags.items() if value not in (None, (), False)]


def _target(flags: dict[str, Any], problems: list[FieldProblem]) -> dict[str, Any] | None:
    if flags["endpoint"] and flags["handler"]:
        problems.append(FieldProblem("--handler", "does not go with --endpoint: a job calls one or the other"))
    target = {
        "endpoint": flags["endpoint"],
        "method": _upper(flags["method"]),
        "headers": _headers(flags["headers"], problems),
        "signing_secret": flags["sign_with"],
        "name": flags["handler"],
        "timeout_seconds": flags["timeout"],
    }
    if flags["handler"]:
        target["type"] = "HANDLER"
    elif flags["endpoint"]:
        target["type"] = "HTTP_WEBHOOK"
    given = {name: value for name, value in target.items() if value is not None}
    return given or None


def _limit(text: str, problems: list[FieldProblem]) -> dict[str, Any]:
    """`key:customer-42=2/1`: the scope, the key, the limit, how many may wait."""
    counts, equals, numbers = text.rpartition("=")
    limit, slash, waiting = numbers.partition("/")
    scope, colon, key = counts.partition(":")
    try:
        given = {"scope": scope, "limit": int(limit)} | ({"max_waiting": int(waiting)} if slash else {})
    except ValueError:
        given = {}
    if not equals or not given:
        form = "key:TEXT=N, job_name=N or tenant=N, with N a number, or two as in 2/1"
        problems.append(FieldProblem("--concurrency", f"{text!r} is not of the form {form}"))
    return given | ({"key": key} if colon else {})


def _headers(lines: Sequence[str], problems: list[FieldProblem]) -> dict[str, str] | None:
    headers = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not colon or not name.strip():  # it may be a secret that stands alone, so it is not quoted
            problems.append(FieldProblem("--header", f"number {number} is not of the form NAME:VALUE"))
        headers[name.strip()] = value.strip()
    return headers or None


def _payload(text: str | None, problems: list[FieldProblem]) -> msgspec.Raw | None:
    """The JSON as it was written: the target gets these bytes."""
    if text is None:
        return None
    try:
        body = _read(text)
        msgspec.json.decode(body)
    except OSError as error:
        problems.append(FieldProblem("--payload", f"{text[1:]}: {error.strerror}"))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        hint = "; a text needs double quotes inside the shell's: '\"text\"'" if text[:1].isalpha() else ""
        problems.append(FieldProblem("--payload", f"is not JSON: {error}{hint}"))
    else:
        return msgspec.Raw(body)
    return None


def _read(text: str) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read().strip()
    if text.startswith("@"):
        return Path(text[1:]).read_bytes().strip()
    return text.encode()


def _upper(text: str | None) -> str | None:
    return None if text is None else text.upper()
