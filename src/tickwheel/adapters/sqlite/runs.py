"""Reads of single runs, their attempts, and what is to be reaped."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from tickwheel.adapters.sqlite.codec import pack_rows, read_run
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.views import find_job, read_views, with_progress
from tickwheel.domain.run import RunState
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.job_views import live_run
from tickwheel.ports.run_views import attempts_of
from tickwheel.ports.store import AttemptRecord, Run, RunPage

SQL: Final = load_statements("runs")


def find_row(session: Session, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
    """The ledger row of that run, without its attempts."""
    found = _read_runs(session, [(scheduled_ms, job_id)])
    return found[0] if found and found[0].tenant_id == tenant_id else None


def get_run(session: Session, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
    """See `Ledger.get_run`."""
    run = find_row(session, tenant_id, job_id, scheduled_ms)
    if run is not None:
        return replace(with_progress(session, run), attempts=_attempts(session, run), **_result(session, run))
    if not find_job(session, tenant_id, job_id):
        return None
    live = live_run(read_views(session, [job_id])[0])
    return live if live is not None and live.scheduled_ms == scheduled_ms else None


def expired(session: Session, worker: int, now_ms: int, limit: int) -> list[Run]:
    """See `Ledger.expired`."""
    keys = session.table(SQL["expired"], {"worker": worker, "now_ms": now_ms, "limit": limit})
    found = _read_runs(session, [(scheduled_ms, bytes.fromhex(job_id)) for scheduled_ms, job_id in keys])
    return sorted(found, key=lambda run: (run.lease_ms or 0, run.job_id, run.scheduled_ms))


def find_runs(session: Session, keys: Sequence[tuple[bytes, int]]) -> list[Run | None]:
    """See `Ledger.find_runs`."""
    found = _read_runs(session, [(scheduled_ms, job_id) for job_id, scheduled_ms in keys])
    by_key = {(run.job_id, run.scheduled_ms): run for run in found}
    return [by_key.get(key) for key in keys]


def list_runs(session: Session, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
    """The ledger rows of a job, latest instant first."""
    kind = bound_kind("runs", tenant_id, job_id)
    before_ms = read_cursor(kind, after, (int,))[0] if after is not None else _END_OF_TIME_MS
    runs = runs_before(session, tenant_id, job_id, before_ms, limit + 1)
    page = tuple(runs[:limit])
    return RunPage(page, write_cursor(kind, page[-1].scheduled_ms) if len(runs) > limit else None)


def runs_before(session: Session, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> list[Run]:
    """See `ExplainingStore.runs_before`."""
    bindings: dict[str, Any] = {"tenant_id": tenant_id, "job_id": job_id, "before_ms": instant_ms}
    rows = session.table(SQL["runs_of_job"], {**bindings, "limit": limit})
    rows += session.table(SQL["run_of_one_off"], bindings)
    return sorted(map(read_run, rows), key=lambda run: -run.scheduled_ms)[:limit]


_END_OF_TIME_MS: Final = (1 << 63) - 1


def _read_runs(session: Session, keys: list[tuple[int, bytes]]) -> list[Run]:
    rows = pack_rows([(scheduled_ms,) for scheduled_ms, _ in keys])
    bindings = {"rows": rows, "ids": b"".join(job_id for _, job_id in keys)}
    return [read_run(values) for values in session.table(SQL["runs_by_key"], bindings)]


def _attempts(session: Session, run: Run) -> tuple[AttemptRecord, ...]:
    key = {"scheduled_ms": run.scheduled_ms, "job_id": run.job_id}
    rows = session.table(SQL["attempts"], key)
    return attempts_of(run, rows, lambda: bool(session.value(SQL["attempt_in_flight"], key)))


def _result(session: Session, run: Run) -> dict[str, str | None]:
    if run.state is not RunState.SUCCEEDED:
        return {}
    rows = session.table(SQL["result"], {"scheduled_ms": run.scheduled_ms, "job_id": run.job_id})
    return {"result": rows[0][0], "result_dropped": rows[0][1]} if rows else {}
