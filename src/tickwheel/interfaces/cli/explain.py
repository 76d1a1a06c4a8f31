"""`tickwheel explain`: why did it not run, run late, run twice?"""

import shutil
import textwrap
from typing import Final

import click

from tickwheel.domain.ids import RUN_PREFIX
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import exact
from tickwheel.interfaces.cli.output import print_fields, print_table, printable
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.explanation_models import AttemptStory, Explanation

_WIDEST: Final = 100
_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  tickwheel explain run_00SNM3WAC0001TFRNGP4RV4CNK00001KB881SQ0\n"
    "  tickwheel explain job_01KB87RMR0003MZHB1C9HP8SB6\n"
    "  tickwheel explain job_01KB87RMR0003MZHB1C9HP8SB6 --at 2026-03-29T02:30:00"
)


@click.command(epilog=_EXAMPLES)
@click.argument("run_or_job_id", metavar="RUN|JOB")
@click.option(
    "--at",
    metavar="TIME",
    help="Of a job: an instant, or (without an offset) a time of the clock in the job's zone. Default: its latest "
    "run, or its next one.",
)
@server_options
def explain(api: Api, run_or_job_id: str, at: str | None) -> None:
    """Say why it did not run, ran late or ran twice.

    Of a run by its id, or of a job at a time: also why it has no run then.
    """
    if at is not None and run_or_job_id.startswith(RUN_PREFIX):
        raise click.UsageError("--at goes with a job; a run has its instant")
    api.show(calls.explain(run_or_job_id, at, api.tenant), show_explanation)


def show_explanation(told: Explanation) -> None:
    """The headline first, then what it rests on."""
    _wrapped(told.headline)
    click.echo()
    print_fields(
        [
            ("run", told.run_id if told.verdict != "no_run" else None),
            ("job", told.job_id),
            ("scheduled", exact(told.scheduled_at)),
            ("verdict", told.verdict.replace("_", " ")),
            ("late", None if told.lateness_ms is None else f"{told.lateness_ms} ms"),
            ("before it", exact(told.occurrence_before)),
            ("after it", exact(told.occurrence_after)),
            *(("see also", run_id) for run_id in told.see_also),
        ]
    )
    if told.causes:
        click.echo("\nWhy")
        width = max(len(cause.code) for cause in told.causes)
        for cause in told.causes:
            says = "as said above" if cause.sentence in told.headline else cause.sentence
            _wrapped(says, f"  {cause.code.ljust(width)}  ")
    if told.timeline:
        click.echo()
        print_table(
            ("WHEN", "SINCE", "STEP", "ATTEMPT", "NOTE"),
            [(exact(s.at), _since(s.took_ms), s.step, s.attempt, s.note or "") for s in told.timeline],
            empty="",
        )
    for attempt in told.attempts:
        click.echo()
        _show_attempt(attempt)
    if told.edited_since:
        click.echo()
        _wrapped("The job was changed after this run began; the requests above show what it has now.")


def _show_attempt(attempt: AttemptStory) -> None:
    click.echo(f"Attempt {attempt.attempt}: {attempt.outcome}, reached its target: {attempt.reached_target}")
    request = attempt.request
    what = f"handler {request.handler}" if request.handler else f"{request.method} {request.endpoint}"
    answer = None if attempt.http_status is None else f"HTTP {attempt.http_status}"
    pairs = [
        ("  token", attempt.fencing_token),
        ("  worker", attempt.worker_id),
        ("  took", None if attempt.took_ms is None else f"{attempt.took_ms} ms"),
        ("  request", f"{what} ({request.payload_bytes} bytes)"),
        *((f"  > {name}", value) for name, value in (request.headers or {}).items()),
        ("  answer", answer),
        ("  error", attempt.error),
        ("  excerpt", attempt.excerpt),
    ]
    print_fields(pairs)


def _since(took_ms: int | None) -> str:
    if took_ms is None:
        return ""
    return f"+{took_ms} ms" if took_ms < 10_000 else f"+{took_ms / 1000:.1f} s"


def _wrapped(text: str, first: str = "") -> None:
    """Broken at the edge of the terminal, indented like its beginning."""
    columns = min(_WIDEST, shutil.get_terminal_size().columns)
    shown = printable(text)
    click.echo("\n".join(textwrap.wrap(shown, columns, initial_indent=first, subsequent_indent=" " * len(first))))
