"""`tickwheel jobs edit`."""

from pathlib import Path
from typing import Any

import click

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.job_files import read_object
from tickwheel.interfaces.cli.job_flags import given_flags, job_flags, read_flags
from tickwheel.interfaces.cli.quoting import CronCommand
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import Job


@click.command(
    cls=CronCommand,
    epilog="\b\nExamples:\n  tickwheel jobs edit JOB_ID --cron '0 8 * * *'\n"
    "  tickwheel jobs edit JOB_ID --priority HIGH --retries 5 --if-version 3",
)
@click.argument("job_id")
@job_flags
@click.option("--file", "file", type=click.Path(path_type=Path), help="JSON object with the fields to change.")
@click.option("--if-version", type=int, help="Only if the job still has this version.")
@server_options
def edit(api: Api, job_id: str, file: Path | None, if_version: int | None, **flags: Any) -> None:
    """Change a job: what is named changes, the rest stays.

    A run that has started goes on as it was; an occurrence that has not is replaced.
    """
    if file is not None and given_flags(flags):
        raise click.UsageError(f"--file does not go with {', '.join(given_flags(flags))}")
    fields = read_flags(flags) if file is None else read_object(file)
    if not fields:
        raise click.UsageError("name what to change; see --help for the flags")
    api.show(calls.edit_job(job_id, fields, api.tenant, if_version), _show)


def _show(job: Job) -> None:
    click.echo(f"{job.job_id} is {job.status}, version {job.version}, next run {short(job.next_run_time_iso)}")
