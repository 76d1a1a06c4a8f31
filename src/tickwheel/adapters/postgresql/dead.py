"""The dead-letter queue, the totals, and whether the store takes writes."""

from typing import Final

from tickwheel.adapters.postgresql import audit_log, views
from tickwheel.adapters.postgresql.records import cold_statements, job_keys, read_job, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.views import snapshot
from tickwheel.domain.ids import shard_of
from tickwheel.ports.audit_entries import dropped_entry
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Counts, DeadLetter, DeadLetterPage

SQL: Final = cold_statements("lists")
_CURSOR: Final = "dead"
_FIRST_ID: Final = bytes(16)

SMALL_PAGES: Final = 500
"""Tables of up to this many pages (4 MB) are counted, larger ones are estimated from the statistics."""
COUNTED_DEAD: Final = 10_000


def list_dead(session: Session, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
    """See `Ledger.list_dead`."""
    failed_ms, job_id, scheduled_ms = (1 << 62, _FIRST_ID, 0)
    kind = bound_kind(_CURSOR, tenant_id)
    if after is not None:
        failed_ms, job_id, scheduled_ms = read_cursor(kind, after, (int, bytes, int))
    bindings = {
        "tenant_id": tenant_id,
        "failed_ms": failed_ms,
        "job_id": uuid_of(job_id),
        "scheduled_ms": scheduled_ms,
        "count": limit + 1,
    }
    with snapshot(session):
        rows = session.rows(SQL["dead_letters"], bindings)
        if not rows:
            return DeadLetterPage((), None)
        keys = [(job.bytes, instant) for _, instant, job, _, _ in rows]
        ids = list(dict.fromkeys(job for job, _ in keys))
        jobs = [read_job(values)[0] for values in session.rows(views.SQL["jobs"], job_keys(ids))]
        names = {job.job_id: job.name for job in jobs}
        known = [key for key in keys if key[0] in names]
        runs = views.find_runs(session, known, dict.fromkeys(names, tenant_id))
    letters = [
        DeadLetter(runs[key], names[key[0]], row[3], row[4])
        for key, row in zip(keys[:limit], rows[:limit], strict=True)
        if key in runs
    ]
    if len(rows) <= limit:
        return DeadLetterPage(tuple(letters), None)
    _, last_instant, last_job, last_failed_ms, _ = rows[limit - 1]
    return DeadLetterPage(tuple(letters), write_cursor(kind, last_failed_ms, last_job.bytes, last_instant))


def drop_dead(
    session: Session,
    tenant_id: str,
    job_id: bytes,
    scheduled_ms: int,
    pin_ms: int | None = None,
    act: Act | None = None,
) -> bool:
    """See `Ledger.drop_dead`."""
    bindings = {
        "shard": shard_of(job_id),
        "scheduled_ms": scheduled_ms,
        "job_id": uuid_of(job_id),
        "tenant_id": tenant_id,
    }
    if act is None:
        return bool(session.write(SQL["drop_dead"], bindings))
    with session.transaction():
        dropped = bool(session.rows(SQL["drop_dead"], bindings))
        if dropped:
            audit_log.append(session, [dropped_entry(act, tenant_id, job_id, scheduled_ms, 0)], pin_ms)
    return dropped


def read_counts(session: Session) -> Counts:
    """See `Store.counts`: exact while tables are small, else from the statistics that autovacuum keeps."""
    with snapshot(session):
        sizes = {name: (rows, pages) for name, rows, pages in session.rows(SQL["sizes"])}
        jobs, job_pages = sizes.get("jobs", (0, 0))
        waiting, timer_pages = sizes.get("timers", (0, 0))
        if job_pages <= SMALL_PAGES:
            [(jobs,)] = session.rows(SQL["count_jobs"])
        if timer_pages <= SMALL_PAGES:
            [(waiting,)] = session.rows(SQL["count_waiting"])
        [(dead,)] = session.rows(SQL["count_dead"], {"count": COUNTED_DEAD})
        if dead == COUNTED_DEAD:
            [(estimate,)] = session.rows(SQL["dead_estimate"])
            dead = max(dead, estimate)
    return Counts(jobs, waiting, dead)


def prove_writable(session: Session) -> None:
    """See `Store.check`. Fails where the server takes no writes, a standby for one: that is not ready."""
    session.write(SQL["write"])
