"""Jobs with what is known about their runs, for readers and for decisions.

A timer's row says nothing by being there, for rows leave with their leaves only. So the live timer of a job is
found so: a one-off names its first timer; of a recurring job the last few of the present version are looked at,
because whoever takes an occurrence inserts the next timer with it. Those whose run has a row are not live.

Timers are read *before* runs. Where nobody holds the job's lock, a claim may come between the two; then the run is
there, and the timer that was read before is known not to be live any more. (The other way round one would find
neither.)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tickwheel.adapters.postgresql.arrays import int2s, int4s, int8s, uuids_of
from tickwheel.adapters.postgresql.records import (
    FirstKey,
    cold_statements,
    home_of,
    job_keys,
    read_job,
    read_run,
    read_timer,
    run_keys,
    uuid_of,
)
from tickwheel.adapters.postgresql.session import Session
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import IN_FLIGHT, TERMINAL
from tickwheel.ports.job_views import view_of
from tickwheel.ports.store import FirstTimer, JobView, Run

SQL: Final = cold_statements("views")
LATEST_TIMERS: Final = 8
"""How many timers of a recurring job are looked at for live ones, the last first."""

Jobs = dict[bytes, tuple[Job, FirstKey]]
Key = tuple[bytes, int]


class Live(NamedTuple):
    """A first timer whose occurrence has no ledger row yet."""

    timer: FirstTimer
    armed_ms: int


class Found(NamedTuple):
    """A view and all live timers behind it."""

    view: JobView
    live: Sequence[Live]
    first: FirstKey


@contextmanager
def snapshot(session: Session) -> Iterator[None]:
    """All statements in it see one state of the database. It leaves nothing behind in the session."""
    session.run(b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    try:
        yield
    finally:
        if not session.connection.broken:
            session.run(b"ROLLBACK")


def has_job(session: Session, tenant_id: str, job_id: bytes) -> bool:
    """Whether the tenant has this job and it is not deleted."""
    key = {"home": home_of(job_id), "job_id": uuid_of(job_id), "tenant_id": tenant_id}
    rows = session.rows(SQL["job_state"], key)
    return bool(rows) and rows[0][0] != JobState.DELETED


def get_job(session: Session, tenant_id: str, job_id: bytes) -> JobView | None:
    """See `JobStore.get_job`."""
    with snapshot(session):
        found = find_views(session, [job_id])
    if not found:
        return None
    view = found[0].view
    if view.job.tenant_id != tenant_id or view.job.state is JobState.DELETED:
        return None
    return view if view.current is None else replace(view, current=with_progress(session, view.current))


def with_progress(session: Session, run: Run) -> Run:
    """The run with what its attempt in flight says of itself; only one that was renewed has said anything."""
    if run.state not in IN_FLIGHT or run.beat_ms is None:
        return run
    rows = session.rows(SQL["progress"], {**run_key(run), "fence": run.fence})
    return replace(run, progress=rows[0][0], note=rows[0][1]) if rows else run


def run_key(run: Run) -> dict[str, Any]:
    """The key of a run, as the bindings of a statement."""
    return {"shard": shard_of(run.job_id), "scheduled_ms": run.scheduled_ms, "job_id": uuid_of(run.job_id)}


def find_views(session: Session, job_ids: Sequence[bytes]) -> list[Found]:
    """Views in the order given; ids without a job are left out."""
    if not job_ids:
        return []
    jobs: Jobs = {}
    for values in session.rows(SQL["jobs"], job_keys(job_ids)):
        job, first = read_job(values)
        jobs[job.job_id] = job, first
    timers = first_timers(session, {j: (job.recurring, job.version, first) for j, (job, first) in jobs.items()})
    shown = _keys_to_show(session, jobs)
    asked = dict.fromkeys([*shown, *((j, live.timer.scheduled_ms) for j in timers for live in timers[j])])
    runs = find_runs(session, list(asked), {j: job.tenant_id for j, (job, _) in jobs.items()})
    by_job: dict[bytes, dict[int, Run]] = {}
    for job_id, instant in shown:
        if (job_id, instant) in runs:
            by_job.setdefault(job_id, {})[instant] = runs[job_id, instant]
    for (job_id, instant), run in runs.items():
        if run.state not in TERMINAL:
            by_job.setdefault(job_id, {})[instant] = run
    found = []
    for job_id in job_ids:
        if job_id in jobs:
            job, first = jobs[job_id]
            live = [one for one in timers.get(job_id, ()) if (job_id, one.timer.scheduled_ms) not in runs]
            found.append(Found(view_of(job, _first(live), by_job.get(job_id, {})), live, first))
    return found


def first_timers(session: Session, jobs: dict[bytes, tuple[bool, int, FirstKey]]) -> dict[bytes, list[Live]]:
    """The first timers of each (recurring, version, first key) that may be live, soonest first."""
    rows = []
    recurring = [(job_id, version) for job_id, (repeats, version, _) in jobs.items() if repeats]
    if recurring:
        bindings = {
            "ids": uuids_of([job_id for job_id, _ in recurring]),
            "versions": int4s([version for _, version in recurring]),
            "count": LATEST_TIMERS,
        }
        rows += session.rows(SQL["latest_timers"], bindings)
    once = [(job_id, first) for job_id, (_, _, first) in jobs.items() if first.due_ms is not None]
    if once:
        keys = {
            "shards": int2s([shard_of(job_id) for job_id, _ in once]),
            "due": int8s([first.due_ms or 0 for _, first in once]),
            "ids": uuids_of([job_id for job_id, _ in once]),
            "instants": int8s([first.instant_ms or 0 for _, first in once]),
            "gens": int4s([first.gen or 0 for _, first in once]),
        }
        rows += session.rows(SQL["first_timers"], keys)
    found: dict[bytes, list[Live]] = {}
    for job_id, due_ms, scheduled_ms, gen, armed_ms in sorted(rows, key=lambda row: row[1:4]):
        found.setdefault(job_id.bytes, []).append(Live(read_timer((due_ms, scheduled_ms, gen)), armed_ms))
    return found


def find_runs(session: Session, keys: Sequence[Key], tenants: dict[bytes, str]) -> dict[Key, Run]:
    """The ledger rows of these keys; `tenants` has the tenant of each job."""
    if not keys:
        return {}
    runs: dict[Key, Run] = {}
    for values in session.rows(SQL["runs_by_key"], run_keys(keys)):
        run = read_run(values, tenants[values[0].bytes])
        runs[run.job_id, run.scheduled_ms] = run
    return runs


def _keys_to_show(session: Session, jobs: Jobs) -> list[Key]:
    """Of each job: its open runs, its latest run, and the run of a one-off."""
    listed = [job_id for job_id, (job, _) in jobs.items() if job.recurring or job.version > 1]
    keys = [(j, first.instant_ms) for j, (_, first) in jobs.items() if first.instant_ms is not None]
    if listed:
        ids = {"ids": uuids_of(listed)}
        for statement in ("open_runs", "latest_runs"):
            keys += [(job_id.bytes, instant) for job_id, instant in session.rows(SQL[statement], ids)]
    return list(dict.fromkeys(keys))


def _first(live: Sequence[Live]) -> FirstTimer | None:
    return live[0].timer if live else None
