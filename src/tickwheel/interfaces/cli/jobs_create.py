"""`tickwheel jobs create`: from flags, from a file, or many from JSON lines."""

from pathlib import Path
from typing import Any, Final

import click

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.job_files import read_object
from tickwheel.interfaces.cli.job_flags import given_flags, job_flags, read_flags
from tickwheel.interfaces.cli.jobs_batch import create_batch
from tickwheel.interfaces.cli.quoting import CronCommand
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import CreatedJob, Job

_WHEN: Final = ("delay", "at", "cron", "now")
_SPELLED: Final = {"delay": "--in", "at": "--at", "cron": "--cron", "now": "--now"}


@click.command(
    cls=CronCommand,
    epilog="\b\nExamples:\n"
    "  tickwheel jobs create --in 45m --endpoint https://example.com/hook --payload '{\"order\": 8812}'\n"
    "  tickwheel jobs create --name nightly --cron '30 2 * * *' --tz Europe/Berlin --handler report\n"
    "  tickwheel jobs create --now --handler send_email --payload @mail.json --priority CRITICAL\n"
    "  tickwheel jobs create --name nightly --replace --file nightly.json\n"
    "  tickwheel jobs create --batch jobs.jsonl",
)
@click.option("--now", is_flag=True, help="Once, at once.")
@job_flags
@click.option("--idempotency-key", metavar="KEY", help="The same key and request give the same job.")
@click.option(
    "--replace",
    is_flag=True,
    help="Create the job, or replace the one made with --replace and this --name; for deploy scripts.",
)
@click.option(
    "--file", type=click.Path(path_type=Path), help="A job as a JSON object, as the API takes it; - = stdin."
)
@click.option("--batch", type=click.Path(path_type=Path), help="Many jobs, a JSON object a line; - = stdin.")
@server_options
def create(
    api: Api,
    idempotency_key: str | None,
    replace: bool,
    file: Path | None,
    batch: Path | None,
    **flags: Any,
) -> None:
    """Create a job. When this returns, it is on disk.

    Say when (--in, --at, --cron or --now) and what (--endpoint or --handler), or hand over a --file. The target
    is --endpoint; --url names the Tickwheel server, as everywhere.
    """
    if batch is not None:
        _exclude("--batch", {**flags, "file": file, "replace": replace, "idempotency_key": idempotency_key})
        create_batch(api, batch)
        return
    name = flags["name"]
    if file is not None:
        _exclude("--file", {**flags, "name": None if replace else name})
        fields = read_object(file)
    else:
        fields = _from_flags(flags)
    if idempotency_key is not None:
        fields["idempotency_key"] = idempotency_key
    if replace:
        _replace(api, name, fields)
    else:
        api.show(calls.create_job(fields, api.tenant), _show_created)


def _from_flags(flags: dict[str, Any]) -> dict[str, Any]:
    problems = []
    when = [_SPELLED[name] for name in _WHEN if flags[name] not in (None, False)]
    if not when:
        problems.append(FieldProblem("--in", "say when: --in, --at, --cron or --now"))
    elif len(when) > 1:
        problems.append(FieldProblem(when[1], f"does not go with {when[0]}: a job has one schedule"))
    if not flags["endpoint"] and not flags["handler"]:
        problems.append(FieldProblem("--endpoint", "say what to call: --endpoint or --handler"))
    try:
        fields = read_flags({name: value for name, value in flags.items() if name != "now"})
    except InvalidRequest as error:
        raise InvalidRequest([*problems, *error.problems]) from error
    if problems:
        raise InvalidRequest(problems)
    return fields


def _replace(api: Api, name: str | None, fields: dict[str, Any]) -> None:
    if not name:
        raise click.UsageError("--replace needs a --name")
    fields.pop("job_name", None)
    api.show(calls.put_job(name, fields, api.tenant), _show_put)


def _exclude(option: str, others: dict[str, Any]) -> None:
    if given := given_flags(others):
        raise click.UsageError(f"{option} does not go with {', '.join(given)}")


def _show_created(job: CreatedJob) -> None:
    click.echo(f"{job.job_id}  {job.status}, next run {short(job.next_run_time_iso)}")
    if job.replayed:
        click.echo("It was there already: the same request with this idempotency key made it.", err=True)
    for warning in job.warnings:
        click.echo(f"warning: {warning}", err=True)


def _show_put(job: Job) -> None:
    click.echo(f"{job.job_id}  {job.status}, version {job.version}, next run {short(job.next_run_time_iso)}")
