"""Reads of runs, their attempts, and chains of recurring jobs."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from tickwheel.adapters.postgresql import views
from tickwheel.adapters.postgresql.records import FirstKey, job_keys, read_job, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.views import SQL, find_views, first_timers, snapshot
from tickwheel.domain.ids import shard_of
from tickwheel.domain.run import RunState
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.job_views import live_run
from tickwheel.ports.run_views import attempts_of
from tickwheel.ports.store import AttemptRecord, BrokenChain, ChainPage, Run, RunPage

_END_OF_TIME_MS: Final = (1 << 63) - 1
_FIRST_ID: Final = bytes(16)


def find_runs(session: Session, keys: Sequence[tuple[bytes, int]]) -> list[Run | None]:
    """See `Ledger.find_runs`."""
    if not keys:
        return []
    with snapshot(session):
        ids = list(dict.fromkeys(job_id for job_id, _ in keys))
        jobs = [read_job(values)[0] for values in session.rows(SQL["jobs"], job_keys(ids))]
        tenants = {job.job_id: job.tenant_id for job in jobs}
        known = [key for key in dict.fromkeys(keys) if key[0] in tenants]
        found = views.find_runs(session, known, tenants)
    return [found.get(key) for key in keys]


def get_run(session: Session, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
    """See `Ledger.get_run`."""
    with snapshot(session):
        found = find_views(session, [job_id])
        if not found or found[0].view.job.tenant_id != tenant_id:
            return None
        key = (job_id, scheduled_ms)
        run = views.find_runs(session, [key], {job_id: tenant_id}).get(key)
        if run is not None:
            run = views.with_progress(session, run)
            return replace(run, attempts=_attempts(session, run), **_result(session, run))
        live = live_run(found[0].view)
        return live if live is not None and live.scheduled_ms == scheduled_ms else None


def list_runs(session: Session, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
    """The ledger rows of a job, latest instant first."""
    kind = bound_kind("runs", tenant_id, job_id)
    before_ms = read_cursor(kind, after, (int,))[0] if after is not None else _END_OF_TIME_MS
    runs = runs_before(session, tenant_id, job_id, before_ms, limit + 1)
    page = tuple(runs[:limit])
    return RunPage(page, write_cursor(kind, page[-1].scheduled_ms) if len(runs) > limit else None)


def runs_before(session: Session, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> list[Run]:
    """See `ExplainingStore.runs_before`."""
    with snapshot(session):
        rows = session.rows(SQL["jobs"], job_keys([job_id]))
        if not rows:
            return []
        job, first = read_job(rows[0])
        if job.tenant_id != tenant_id:
            return []
        bindings = {"job_id": uuid_of(job_id), "before_ms": instant_ms, "count": limit}
        instants = {instant for (instant,) in session.rows(SQL["runs_of_job"], bindings)}
        if first.instant_ms is not None and first.instant_ms < instant_ms:
            instants.add(first.instant_ms)
        found = views.find_runs(session, [(job_id, instant) for instant in instants], {job_id: tenant_id})
    return sorted(found.values(), key=lambda run: -run.scheduled_ms)[:limit]


def broken_chains(session: Session, after: bytes, limit: int) -> ChainPage:
    """See `TimerStore.broken_chains`."""
    with snapshot(session):
        rows = session.rows(SQL["chains"], {"after": uuid_of(after or _FIRST_ID), "count": limit})
        jobs = {job_id.bytes: (True, version, FirstKey(None, None, None)) for job_id, _, version in rows}
        timers = first_timers(session, jobs)
        keys = [(j, live.timer.scheduled_ms) for j, candidates in timers.items() for live in candidates]
        tenants = {job_id.bytes: tenant_id for job_id, tenant_id, _ in rows}
        taken = views.find_runs(session, keys, tenants)
    broken = []
    for job_id, tenant_id in tenants.items():
        count = sum((job_id, live.timer.scheduled_ms) not in taken for live in timers.get(job_id, ()))
        if count != 1:
            broken.append(BrokenChain(tenant_id, job_id, count))
    return ChainPage(tuple(broken), rows[-1][0].bytes if len(rows) == limit else None)


def _attempts(session: Session, run: Run) -> tuple[AttemptRecord, ...]:
    key: dict[str, Any] = {
        "shard": shard_of(run.job_id),
        "scheduled_ms": run.scheduled_ms,
        "job_id": uuid_of(run.job_id),
    }
    rows = session.rows(SQL["attempts"], key)
    return attempts_of(run, rows, lambda: bool(session.rows(SQL["attempt_in_flight"], key)[0][0]))


def _result(session: Session, run: Run) -> dict[str, str | None]:
    if run.state is not RunState.SUCCEEDED:
        return {}
    rows = session.rows(SQL["result"], views.run_key(run))
    return {"result": rows[0][0], "result_dropped": rows[0][1]} if rows else {}
