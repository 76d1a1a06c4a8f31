"""Jobs with what is known about their runs, for readers and for decisions."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import apsw
from msgspec.structs import replace

from tickwheel.adapters.sqlite.codec import read_job, read_run
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.run import IN_FLIGHT
from tickwheel.ports.job_views import view_of
from tickwheel.ports.store import FirstTimer, JobView, Run

SQL: Final = load_statements("views")


class Live(NamedTuple):
    """A first timer whose occurrence has no ledger row yet."""

    timer: FirstTimer
    armed_ms: int | None


def find_job(session: Session, tenant_id: str, job_id: bytes) -> bool:
    """Whether the tenant has this job and it is not deleted."""
    found = session.value(SQL["job_of_tenant"], {"tenant_id": tenant_id, "job_id": job_id})
    return found is not None


def get_job(session: Session, tenant_id: str, job_id: bytes) -> JobView | None:
    """See `JobStore.get_job`."""
    if not find_job(session, tenant_id, job_id):
        return None
    view = read_views(session, [job_id])[0]
    return view if view.current is None else replace(view, current=with_progress(session, view.current))


def with_progress(session: Session, run: Run) -> Run:
    """The run with what its attempt in flight says of itself."""
    if run.state not in IN_FLIGHT:
        return run
    key = {"scheduled_ms": run.scheduled_ms, "job_id": run.job_id, "fence": run.fence}
    rows = session.table(SQL["progress"], key)
    return replace(run, progress=rows[0][0], note=rows[0][1]) if rows else run


def find_named(session: Session, tenant_id: str, name: str) -> bytes | None:
    """The live job that was created under this name."""
    found: bytes | None = session.value(SQL["named_job"], {"tenant_id": tenant_id, "name": name})
    return found


def read_views(session: Session, job_ids: Sequence[bytes]) -> list[JobView]:
    """Views in the order given; ids without a job are left out."""
    if not job_ids:
        return []
    wanted = {"wanted": apsw.carray(tuple(job_ids))}
    jobs = {job.job_id: job for job in map(read_job, session.table(SQL["jobs"], wanted))}
    live = read_live(session, job_ids)
    runs: dict[bytes, dict[int, Run]] = {}
    for values in session.table(SQL["view_runs"], wanted):
        run = read_run(values)
        runs.setdefault(run.job_id, {})[run.scheduled_ms] = run
    return [view_of(jobs[j], _first(live.get(j, [])), runs.get(j, {})) for j in job_ids if j in jobs]


def read_live(session: Session, job_ids: Sequence[bytes]) -> dict[bytes, list[Live]]:
    """The live first timers of each job, soonest first."""
    found: dict[bytes, list[Live]] = {}
    rows = session.table(SQL["live_timers"], {"wanted": apsw.carray(tuple(job_ids))})
    for job_id, due_ms, scheduled_ms, gen, armed_ms in sorted(rows, key=lambda row: row[1:4]):
        found.setdefault(bytes.fromhex(job_id), []).append(Live(FirstTimer(due_ms, scheduled_ms, gen), armed_ms))
    return found


def _first(live: Sequence[Live]) -> FirstTimer | None:
    return live[0].timer if live else None
