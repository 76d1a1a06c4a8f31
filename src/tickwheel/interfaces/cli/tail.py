"""`tickwheel tail`: follows runs by looking at the API again and again.

The API lists runs by job, so this looks at jobs: the newest ones and those due soonest, and at the runs of each
whose last run has changed. One request shows `PAGE_COUNT` jobs, so a quiet server costs one or two requests a
second. With more jobs than that, some are looked at only when they are due soon; `tail JOB_ID` follows one wholly.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Final

import click
import msgspec

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import exact
from tickwheel.interfaces.cli.output import print_json, printable
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.errors import ServerUnreachable
from tickwheel.interfaces.client.models import ENDED, Job, Run

INTERVAL_MS: Final = 1_000
PAGE_COUNT: Final = 500
RUNS_COUNT: Final = 20
REMEMBERED_COUNT: Final = 50_000


@click.command(epilog="\b\nExamples:\n  tickwheel tail\n  tickwheel tail job_01KB87RMR0003MZHB1C9HP8SB6 --json")
@click.argument("job_id", required=False)
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many lines.")
@server_options
def tail(api: Api, job_id: str | None, count: int | None) -> None:
    """Follow runs as they end, or are to be tried again: of JOB_ID, or of all jobs. Ctrl-C stops.

    With --json each line is one JSON object.
    """
    with suppress(KeyboardInterrupt):
        for job, run, raw in islice(follow(api, job_id), count):
            if api.as_json:
                print_json(raw)
            else:
                click.echo(line_of(job, run))


class _RawPage(msgspec.Struct):
    runs: list[msgspec.Raw]


def follow(api: Api, job_id: str | None) -> Iterator[tuple[Job, Run, bytes]]:
    """Runs as they end or wait for a retry, with what the API wrote; none that had ended before."""
    watch = Watch()
    watch.begin(_jobs(api, job_id))
    away = False
    while True:
        api.pause(INTERVAL_MS)
        try:
            yield from _news(api, watch, job_id)
            away = False
        except ServerUnreachable as error:
            if not away:
                click.echo(f"{error}; waiting for it", err=True)
            away = True


def _news(api: Api, watch: "Watch", job_id: str | None) -> Iterator[tuple[Job, Run, bytes]]:
    for job in watch.changed(_jobs(api, job_id)):
        call = calls.list_runs(job.job_id, api.tenant, {"limit": RUNS_COUNT})
        body = api.ask(call.raw())
        runs, raws = call.read(body).runs, msgspec.json.decode(body, type=_RawPage).runs
        written = {run.run_id: bytes(raw) for run, raw in zip(runs, raws, strict=True)}
        for run in watch.news(reversed(runs)):
            yield job, run, written[run.run_id]


class Watch:
    """What has been seen of which job, so that each change is shown once."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str] | None] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        self._open: set[str] = set()
        self._from: dict[str, datetime] = {}

    def begin(self, jobs: Iterable[Job]) -> None:
        """Take what is there as known; a run that goes on is still to end."""
        for job in jobs:
            self._last[job.job_id] = _last_of(job)
            if job.last_run is not None and job.last_run.status in ENDED:
                self._from[job.job_id] = job.last_run.scheduled_at

    def changed(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Those whose runs are worth a look."""
        for job in jobs:
            last = _last_of(job)
            if last is None:
                continue
            if self._last.get(job.job_id) != last or job.job_id in self._open:
                self._last[job.job_id] = last
                yield job

    def news(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The runs that ended, or whose attempt failed, since they were last seen."""
        going_on = False
        job_id = ""
        for run in runs:
            job_id = run.job_id
            going_on = going_on or not run.ended
            now = (run.status, run.attempt)
            if self._is_old(run) or self._seen.get(run.run_id) == now:
                continue
            if run.ended or (run.retry_at is not None and run.attempt):
                self._remember(run.run_id, now)
                yield run
        (self._open.add if going_on else self._open.discard)(job_id)

    def _is_old(self, run: Run) -> bool:
        """Whether it had ended before we looked for the first time."""
        start = self._from.get(run.job_id)
        return start is not None and run.ended and run.scheduled_at <= start

    def _remember(self, run_id: str, state: tuple[str, int]) -> None:
        self._seen[run_id] = state
        if len(self._seen) > REMEMBERED_COUNT:
            del self._seen[next(iter(self._seen))]


def _jobs(api: Api, job_id: str | None) -> list[Job]:
    if job_id is not None:
        return [api.ask(calls.get_job(job_id, api.tenant))]
    newest = api.ask(calls.list_jobs(api.tenant, {"limit": PAGE_COUNT}))
    found = {job.job_id: job for job in newest.jobs}
    if newest.next_cursor:
        soonest = api.ask(calls.list_jobs(api.tenant, {"limit": PAGE_COUNT, "order": "due"}))
        found |= {job.job_id: job for job in soonest.jobs}
    return list(found.values())


def _last_of(job: Job) -> tuple[str, str] | None:
    return None if job.last_run is None else (job.last_run.run_id, job.last_run.status)


def line_of(job: Job, run: Run) -> str:
    """One run on one line."""
    at = run.timeline.finished or run.timeline.started or run.scheduled_at
    parts = [exact(at) or "", run.status if run.ended else f"{run.status} (retry at {exact(run.retry_at)})"]
    parts.append(printable(job.job_name or job.job_id))
    parts.append(run.run_id)
    parts.append(f"attempt {run.attempt}")
    if run.timeline.lateness_ms is not None:
        parts.append(f"{run.timeline.lateness_ms} ms late")
    if run.http_status:
        parts.append(f"HTTP {run.http_status}")
    if run.error or run.skip_reason:
        parts.append(f"({printable(run.error or run.skip_reason)})")
    return "  ".join(parts)
