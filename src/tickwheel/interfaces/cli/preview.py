"""`tickwheel preview`: when an expression fires, by the evaluator that fires. Needs no server."""

import sys
from typing import Any, Final

import click
import msgspec

from tickwheel.domain.cron import CronError, Preview
from tickwheel.domain.cron import preview as preview_cron
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.limits import PREVIEW_COUNT_MAX
from tickwheel.domain.requests.instants import InstantError, format_instant, parse_instant
from tickwheel.interfaces.cli.output import print_json
from tickwheel.interfaces.cli.quoting import CronCommand

DEFAULT_COUNT: Final = 5
LINE_BYTES: Final = 65_536
"""A longer line is answered as an error: no expression is."""


class Question(msgspec.Struct):
    """One line of `--jsonl`."""

    expr: str
    tz: str = "UTC"
    start: str | None = None
    count: int = DEFAULT_COUNT


@click.command(
    cls=CronCommand,
    epilog="\b\nExamples:\n"
    "  tickwheel preview '30 2 * * *' --tz Europe/Berlin --start 2026-03-28T12:00:00Z --count 3\n"
    '  echo \'{"expr": "@daily", "count": 2}\' | tickwheel preview --jsonl',
)
@click.argument("expr", required=False)
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="IANA zone, such as Europe/Berlin.")
@click.option("--start", metavar="ISO", help="Show times after this instant (default: now).")
@click.option("--count", type=int, default=DEFAULT_COUNT, show_default=True, help="How many times to show.")
@click.option(
    "--jsonl",
    is_flag=True,
    help='Read objects {"expr","tz","start","count"} from standard input, one a line, and answer each with one '
    'line: {"next":[...],"warnings":[...]} or {"error":"..."}.',
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def preview(expr: str | None, tz: str, start: str | None, count: int, jsonl: bool, as_json: bool) -> None:
    """Show when a cron expression fires, in a zone, with what clock changes do to it.

    EXPR has five fields (minute hour day month weekday), or six with seconds first; quote it.
    """
    if jsonl:
        if expr is not None:
            raise click.UsageError("--jsonl reads the expressions from standard input; leave EXPR out")
        answer_lines()
        return
    if expr is None:
        raise click.UsageError("EXPR is missing; see --help for examples")
    question = Question(expr, tz, start, count)
    try:
        shown = _evaluate(question)
    except CronError as error:
        raise InvalidRequest(
            [FieldProblem("--tz" if error.field == "timezone" else "EXPR", str(error))]
        ) from error
    except InstantError as error:
        raise InvalidRequest([FieldProblem("--start", str(error))]) from error
    except _CountError as error:
        raise InvalidRequest([FieldProblem("--count", str(error))]) from error
    if as_json:
        print_json(
            {
                "next": _utc(shown),
                "local": list(shown.local),
                "notes": list(shown.notes),
                "warnings": list(shown.warnings),
            }
        )
        return
    for instant, local in zip(_utc(shown), shown.local, strict=True):
        click.echo(f"{instant}  {local}")
    for note in shown.notes:
        click.echo(f"note: {note}", err=True)
    for warning in shown.warnings:
        click.echo(f"warning: {warning}", err=True)


def answer_lines() -> None:
    """One answer per line, flushed at once, whatever is in the line."""
    output = sys.stdout.buffer
    for line in sys.stdin.buffer:
        if line.strip():
            output.write(msgspec.json.encode(_answer(line)) + b"\n")
            output.flush()


def _answer(line: bytes) -> dict[str, Any]:
    if len(line) > LINE_BYTES:
        return {"error": f"the line is longer than {LINE_BYTES} bytes"}
    try:
        question = msgspec.json.decode(line, type=Question)
        shown = _evaluate(question)
    except CronError as error:
        return {"error": f"{'tz' if error.field == 'timezone' else 'expr'}: {error}"}
    except InstantError as error:
        return {"error": f"start: {error}"}
    except _CountError as error:
        return {"error": f"count: {error}"}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return {"error": f'not an object such as {{"expr": "@daily"}}: {error}'}
    except Exception as error:  # a fault of ours in one line must not leave the lines after it without answers
        return {"error": f"internal: {type(error).__name__}: {error}"}
    return {"next": _utc(shown), "warnings": list(shown.warnings)}


class _CountError(ValueError):
    pass


def _evaluate(question: Question) -> Preview:
    if not 1 <= question.count <= PREVIEW_COUNT_MAX:
        raise _CountError(f"must be a whole number from 1 to {PREVIEW_COUNT_MAX}")
    start_ms = _now_ms() if question.start is None else parse_instant(question.start)
    return preview_cron(question.expr, question.tz, start_ms, question.count)


def _now_ms() -> int:
    from tickwheel.wiring import system_clock  # the one import that takes time, and most callers name a start

    return system_clock().now_ms()


def _utc(shown: Preview) -> list[str]:
    return [_short(instant_ms) for instant_ms in shown.next_ms]


def _short(instant_ms: int) -> str:
    """Occurrences lie on whole seconds."""
    return format_instant(instant_ms).replace(".000Z", "Z")
