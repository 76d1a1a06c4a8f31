"""`tickwheel runs`: one run, its attempts and its end."""

import click
import msgspec

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import exact, short
from tickwheel.interfaces.cli.output import print_fields, print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import Attempt, Run


@click.group()
def runs() -> None:
    """Look at a run and its attempts; cancel one.

    A run is one occurrence of a job. `tickwheel jobs runs JOB_ID` lists them.
    """


@runs.command()
@click.argument("run_id")
@server_options
def get(api: Api, run_id: str) -> None:
    """Show a run: its state, its timeline, and every attempt that did not simply succeed."""
    api.show(calls.get_run(run_id, api.tenant), show_run)


@runs.command()
@click.argument("run_id")
@server_options
def cancel(api: Api, run_id: str) -> None:
    """End one run, whether it waits, runs or is between two attempts. Its job goes on."""
    api.show(calls.cancel_run(run_id, api.tenant), lambda _: click.echo(f"{run_id} is cancelled"))


def show_run(run: Run) -> None:
    """All about one run."""
    at = run.timeline
    print_fields(
        [
            ("run", run.run_id),
            ("job", run.job_id),
            ("status", run.status),
            ("scheduled", exact(run.scheduled_at)),
            ("late", None if at.lateness_ms is None else f"{at.lateness_ms} ms"),
            ("attempt", run.attempt),
            ("retry at", exact(run.retry_at)),
            ("skipped", run.skip_reason),
            ("progress", None if run.progress is None else f"{run.progress:.0%}"),
            ("note", run.note),
            ("HTTP status", run.http_status),
            ("error", run.error),
            ("worker", run.worker_id),
            ("token", run.fencing_token),
            ("armed", exact(at.armed)),
            ("claimed", exact(at.claimed)),
            ("dispatched", exact(at.dispatched)),
            ("started", exact(at.started)),
            ("finished", exact(at.finished)),
            ("result", None if run.result is None else msgspec.json.encode(run.result).decode()),
            ("no result", run.result_dropped),
        ]
    )
    if run.attempts:
        click.echo()
        print_table(
            ("ATTEMPT", "OUTCOME", "HTTP", "STARTED", "TOOK", "ERROR", "ANSWER"),
            [
                (a.attempt, a.outcome, a.http_status, short(a.started_at), _took(a), a.error, a.excerpt)
                for a in run.attempts
            ],
            empty="",
        )


def _took(attempt: Attempt) -> str | None:
    if attempt.started_at is None or attempt.finished_at is None:
        return None
    return f"{(attempt.finished_at - attempt.started_at).total_seconds():.3f} s"
