"""Jobs for people."""

import click
import msgspec

from tickwheel.interfaces.cli.instants import exact, short
from tickwheel.interfaces.cli.output import print_fields, print_table
from tickwheel.interfaces.client.models import Job, JobPage, Limit, Target


def show_job(job: Job) -> None:
    """All about one job."""
    policy = job.retry_policy
    print_fields(
        [
            ("job", job.job_id),
            ("name", job.job_name),
            ("tenant", job.tenant_id),
            ("status", job.status),
            ("type", job.schedule_type),
            ("cron", None if job.cron_expression is None else f"{job.cron_expression}  ({job.timezone})"),
            ("runs at", exact(job.execute_at)),
            ("next run", exact(job.next_run_time_iso)),
            ("last run", None if job.last_run is None else f"{job.last_run.status}  {job.last_run.run_id}"),
            ("attempt", job.current_attempt or None),
            ("progress", None if job.current_progress is None else f"{job.current_progress:.0%}"),
            ("note", job.current_note),
            ("worker", job.current_lease_worker_id),
            ("token", job.fencing_token),
            ("heartbeat", exact(job.last_heartbeat_at)),
            ("calls", _call(job.target)),
            ("timeout", None if job.target.timeout_seconds is None else f"{job.target.timeout_seconds:g} s"),
            ("headers", ", ".join(job.target.headers or {})),
            ("signed with", job.target.signing_secret),
            ("payload", None if job.payload is None else msgspec.json.encode(job.payload).decode()),
            (
                "retries",
                f"{policy.max_retries}, waits {policy.initial_interval_sec:g} s x {policy.backoff_multiplier:g}, "
                f"at most {policy.max_interval_sec:g} s",
            ),
            ("priority", job.priority),
            ("catch-up", None if job.catch_up is None else job.catch_up.policy),
            ("overlap", job.overlap),
            ("limits", ", ".join(map(_limit, job.concurrency or ()))),
            ("deadline", None if job.deadline_seconds is None else f"{job.deadline_seconds:g} s"),
            ("from", exact(job.start_at)),
            ("until", exact(job.end_at)),
            ("tags", ", ".join(job.tags)),
            ("key", job.idempotency_key),
            ("version", job.version),
            ("created", exact(job.created_at)),
            ("changed", exact(job.updated_at)),
        ]
    )


def show_jobs(page: JobPage) -> None:
    """A table."""
    print_table(
        ("JOB", "NAME", "STATUS", "WHEN", "NEXT RUN", "LAST RUN", "CALLS"),
        [
            (
                job.job_id,
                job.job_name,
                job.status,
                job.cron_expression or job.schedule_type,
                short(job.next_run_time_iso),
                job.last_run.status if job.last_run else None,
                _call(job.target),
            )
            for job in page.jobs
        ],
        empty="No jobs.",
    )
    if page.next_cursor:
        click.echo(f"There are more: --cursor {page.next_cursor}, or --all", err=True)


def _limit(limit: Limit) -> str:
    """As the flag has it."""
    counts = f"key:{limit.key}" if limit.key is not None else limit.scope
    return f"{counts}={limit.limit}" + ("" if limit.max_waiting is None else f"/{limit.max_waiting}")


def _call(target: Target) -> str:
    return f"{target.method} {target.endpoint}" if target.endpoint else f"handler {target.name}"
