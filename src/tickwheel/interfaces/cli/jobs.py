"""`tickwheel jobs`: the group; making and changing jobs have modules of their own."""

from typing import Any

import click

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import exact, short
from tickwheel.interfaces.cli.jobs_create import create
from tickwheel.interfaces.cli.jobs_edit import edit
from tickwheel.interfaces.cli.jobs_show import show_job, show_jobs
from tickwheel.interfaces.cli.output import print_json, print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import JobPage, RunPage


@click.group()
def jobs() -> None:
    """Create, look at, change and delete jobs."""


jobs.add_command(create)
jobs.add_command(edit)


@jobs.command()
@click.argument("job_id")
@server_options
def get(api: Api, job_id: str) -> None:
    """Show a job: its status, its definition, its next and last run."""
    api.show(calls.get_job(job_id, api.tenant), show_job)


@jobs.command(
    "list",
    epilog="\b\nExamples:\n  tickwheel jobs list --status SCHEDULED --order due\n"
    "  tickwheel jobs list --name-prefix billing- --json",
)
@click.option("--status", help="SCHEDULED, RUNNING, FAILED, PAUSED, ...")
@click.option("--name-prefix", metavar="TEXT", help="The beginning of the name.")
@click.option("--type", "schedule_type", help="ONE_OFF, DELAYED, CRON or INSTANT.")
@click.option("--priority", metavar="LANE", help="CRITICAL, HIGH, DEFAULT or LOW.")
@click.option("--tag", help="One of the job's tags.")
@click.option("--due-from", metavar="ISO", help="Next due at or after this instant.")
@click.option("--due-to", metavar="ISO", help="Next due before this instant.")
@click.option("--order", help="created (newest first, the default) or due (soonest first).")
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most on a page.")
@click.option("--cursor", help="Go on after a page: its next_cursor.")
@click.option("--all", "all_pages", is_flag=True, help="Go on until the end.")
@server_options
def list_(api: Api, all_pages: bool, **filters: Any) -> None:
    """List jobs; all filters that are given must match."""
    for name in ("status", "schedule_type", "priority"):
        filters[name] = filters[name].upper() if filters[name] else None
    if not all_pages:
        api.show(calls.list_jobs(api.tenant, filters), show_jobs)
        return
    page = api.ask(calls.list_jobs(api.tenant, filters))
    found = list(page.jobs)
    while page.next_cursor:
        page = api.ask(calls.list_jobs(api.tenant, {**filters, "cursor": page.next_cursor}))
        found += page.jobs
    whole = JobPage(jobs=tuple(found), next_cursor=None)
    if api.as_json:
        print_json(whole)
    else:
        show_jobs(whole)


@jobs.command()
@click.argument("job_id")
@server_options
def cancel(api: Api, job_id: str) -> None:
    """End a job for good, with everything of it that waits or runs."""
    api.show(calls.cancel_job(job_id, api.tenant), lambda _: click.echo(f"{job_id} is cancelled"))


@jobs.command()
@click.argument("job_id")
@server_options
def pause(api: Api, job_id: str) -> None:
    """Let nothing of a job start until it is resumed; what runs goes on."""
    api.show(calls.pause_job(job_id, api.tenant), lambda job: click.echo(f"{job.job_id} is paused"))


@jobs.command()
@click.argument("job_id")
@server_options
def resume(api: Api, job_id: str) -> None:
    """Let a paused job go on with its next occurrence."""
    api.show(
        calls.resume_job(job_id, api.tenant),
        lambda job: click.echo(f"{job.job_id} is {job.status}, next run {short(job.next_run_time_iso)}"),
    )


@jobs.command()
@click.argument("job_id")
@server_options
def trigger(api: Api, job_id: str) -> None:
    """Run a job once more, now, beside its schedule."""
    api.show(calls.trigger_job(job_id, api.tenant), lambda run: click.echo(f"{run.run_id} is on its way"))


@jobs.command()
@click.argument("job_id")
@server_options
def delete(api: Api, job_id: str) -> None:
    """Cancel a job and forget its definition. Its runs stay readable by id for the retention time."""
    api.ask(calls.delete_job(job_id, api.tenant))
    if api.as_json:
        print_json({"job_id": job_id, "deleted": True})
    else:
        click.echo(f"{job_id} is deleted")


@jobs.command()
@click.argument("job_id")
@click.option("--limit", type=int, default=20, show_default=True, help="How many at most.")
@click.option("--cursor", help="Go on after a page: its next_cursor.")
@server_options
def runs(api: Api, job_id: str, limit: int, cursor: str | None) -> None:
    """List the runs of a job, latest first."""
    api.show(calls.list_runs(job_id, api.tenant, {"limit": limit, "cursor": cursor}), _show_runs)


def _show_runs(page: RunPage) -> None:
    print_table(
        ("RUN", "STATUS", "SCHEDULED", "LATE MS", "ATTEMPT", "HTTP", "ERROR"),
        [
            (
                r.run_id,
                r.status,
                exact(r.scheduled_at),
                r.timeline.lateness_ms,
                r.attempt,
                r.http_status,
                r.error or r.skip_reason,
            )
            for r in page.runs
        ],
        empty="No runs yet.",
    )
    if page.next_cursor:
        click.echo(f"There are more: --cursor {page.next_cursor}", err=True)
