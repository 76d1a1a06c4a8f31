"""`tickwheel dlq`: the dead-letter queue."""

import click

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.output import print_json, print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.cause_models import CauseGroup, CauseList
from tickwheel.interfaces.client.models import DeadLetter, DeadLetterPage


@click.group()
def dlq() -> None:
    """Runs that are out of attempts: list, run again, delete."""


_of_cause = click.option("--cause", metavar="TEXT", help="Only those of this cause, as `dlq causes` shows it.")
_of_job = click.option("--job", "job_id", metavar="JOB_ID", help="Only those of this job.")


@dlq.command("list")
@_of_cause
@_of_job
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on after a page: its next_cursor.")
@server_options
def list_(api: Api, cause: str | None, job_id: str | None, limit: int, cursor: str | None) -> None:
    """List dead letters, the newest failure first."""
    query = {"cause": cause, "job_id": job_id, "limit": limit, "cursor": cursor}
    api.show(calls.list_dead_letters(api.tenant, query), _show)


@dlq.command()
@server_options
def causes(api: Api) -> None:
    """Group dead letters by cause, the most frequent first."""
    api.show(calls.dead_letter_causes(api.tenant), _show_causes)


@dlq.command(
    epilog="\b\nExamples:\n  tickwheel dlq redrive run_00SNM3WAC0001TFRNGP4RV4CNK00001KB881SQ0\n"
    "  tickwheel dlq redrive --cause 'answered 503'\n  tickwheel dlq redrive --all"
)
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID]...")
@_of_cause
@_of_job
@click.option("--all", "redrive_all", is_flag=True, help="All there are.")
@server_options
def redrive(api: Api, run_ids: tuple[str, ...], cause: str | None, job_id: str | None, redrive_all: bool) -> None:
    """Run dead letters again, each with its full number of attempts."""
    if [redrive_all, bool(run_ids), bool(cause or job_id)].count(True) != 1:
        raise click.UsageError("name run ids, or --cause or --job or both, or --all")
    call = calls.redrive(run_ids or None, api.tenant, cause=cause, job_id=job_id)
    body = api.ask(call.raw())
    result = call.read(body)
    if api.as_json:
        print_json(body)
    else:
        click.echo(f"{result.redriven_count} will run again")
    lines = [f"{run_id} is no dead letter" for run_id in result.not_found]
    lines += [f"{refused.run_id}: {refused.detail}" for refused in result.refused]
    if lines:
        raise Failure(lines, ExitCode.CONFLICT if result.refused else ExitCode.NOT_FOUND)


@dlq.command()
@click.argument("run_id")
@server_options
def delete(api: Api, run_id: str) -> None:
    """Remove a dead letter. The run stays FAILED in the history of its job."""
    api.ask(calls.delete_dead_letter(run_id, api.tenant))
    if api.as_json:
        print_json({"run_id": run_id, "deleted": True})
    else:
        click.echo(f"{run_id} is removed from the queue")


def _show(page: DeadLetterPage) -> None:
    print_table(
        ("RUN", "JOB NAME", "FAILED", "ATTEMPTS", "HTTP", "CAUSE"),
        [
            (d.run_id, d.job_name, short(d.failed_at), d.attempts, d.http_status, _cause(d))
            for d in page.dead_letters
        ],
        empty="The dead-letter queue is empty.",
    )
    if page.next_cursor:
        click.echo(f"There are more: --cursor {page.next_cursor}", err=True)


def _show_causes(seen: CauseList) -> None:
    print_table(
        ("COUNT", "CAUSE", "JOBS", "FIRST", "LAST", "EXAMPLE"),
        [
            (
                group.count,
                group.cause,
                _jobs(group),
                short(group.oldest_failed_at),
                short(group.newest_failed_at),
                group.example_run_id,
            )
            for group in seen.causes
        ],
        empty="The dead-letter queue is empty.",
    )


def _jobs(group: CauseGroup) -> str:
    names = [job.job_name or job.job_id for job in group.jobs[:3]]
    return ", ".join(names) + (" …" if len(group.jobs) > 3 else "")


def _cause(letter: DeadLetter) -> str:
    """Why it was given up, and the last attempt's error where that is something else."""
    return letter.cause if letter.error in (None, letter.cause) else f"{letter.cause}: {letter.error}"
