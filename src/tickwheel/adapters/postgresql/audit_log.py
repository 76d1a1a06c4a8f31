"""The audit log: entries are written in the transaction of what they tell of, and read page by page.

New jobs are told of in the statement that inserts them, so that an act costs no round trip.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tickwheel.adapters.postgresql.arrays import int4s, int8s, texts, uuids_of
from tickwheel.adapters.postgresql.batches import Bindings, storable
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.ports.audit_entries import Call, alone_entries, drafts_of, printed_ids, told_job
from tickwheel.ports.audit_log_pages import CHUNK, Candidates, Facts, Source, choose, source_of, start_of
from tickwheel.ports.registry import AuditEntry, AuditLogPage, AuditLogQuery
from tickwheel.ports.store import NewJob

SQL: Final = load_statements("audit_log")
_UNCOMMON: Final = "action <> 'job.create'"
_CONDITIONS: Final = {
    Source.ALL: "true",
    Source.TENANT: "tenant_id = %(tenant_id)s",
    Source.ACTOR: "actor = %(actor)s",
    Source.SUBJECT: "subject = %(subject)s",
    Source.UNCOMMON: _UNCOMMON,
    Source.UNCOMMON_OF_TENANT: f"tenant_id = %(tenant_id)s AND {_UNCOMMON}",
}
FACTS: Final = {
    source: SQL["facts"].replace(b"{where}", condition.encode()) for source, condition in _CONDITIONS.items()
}


_common: Final = lru_cache(maxsize=1_024)(storable)
"""Few of these texts are different ones."""


def append(session: Session, entries: Sequence[AuditEntry], pin_ms: int | None = None) -> None:
    """Write entries in the transaction that is open, in the order given. `at_ms` 0: the server's time."""
    if entries:
        session.run(SQL["insert_entries"], _all_bindings(entries, pin_ms))


def append_alone(session: Session, entries: Sequence[AuditEntry], pin_ms: int | None) -> None:
    """The same in a transaction of its own."""
    if entries:
        session.write_count(SQL["insert_entries"], _all_bindings(entries, pin_ms))


def _all_bindings(entries: Sequence[AuditEntry], pin_ms: int | None) -> Bindings:
    return {
        **entry_bindings(entries),
        "pin": pin_ms,
        "entry_at_ms": int8s([entry.at_ms for entry in entries]),
        "entry_before": texts([entry.before for entry in entries]),
    }


def entry_bindings(entries: Sequence[AuditEntry]) -> Bindings:
    """The columns of entries but for their times and what was before."""
    return {
        "entry_tenant_id": texts([_common(entry.tenant_id) for entry in entries]),
        "entry_actor": texts([_common(entry.actor) for entry in entries]),
        "entry_source": texts([_common(entry.source) for entry in entries]),
        "entry_action": texts([_common(entry.action) for entry in entries]),
        "entry_subject": texts([storable(entry.subject) for entry in entries]),
        "entry_after": texts([entry.after for entry in entries]),
    }


def each_bindings(jobs: Sequence[NewJob], calls: Sequence[Call], sent: Sequence[int]) -> Bindings | None:
    """What `created_each` needs to tell of those jobs that turn out to be created; `sent`: places of jobs.

    None if a call is for several jobs.
    """
    if len(calls) != len(jobs):
        return None
    told = [(act, jobs[place]) for place in sent if (act := calls[place][0]) is not None]
    entries = alone_entries([(act, new.job) for act, new in told], 0)
    return {**entry_bindings(entries), "entry_id": uuids_of([new.job.job_id for _, new in told])}


def draft_bindings(jobs: Sequence[NewJob], calls: Sequence[Call], sent: Sequence[int]) -> Bindings:
    """The same for `created_entries`."""
    drafts = list(drafts_of(jobs, calls))
    draft_of = {place: number for number, draft in enumerate(drafts, 1) for place in draft.places}
    places = [place for place in sent if place in draft_of]
    alone = [jobs[draft.places[0]].job if len(draft.places) == 1 else None for draft in drafts]
    return {
        "draft_tenant_id": texts([draft.tenant_id for draft in drafts]),
        "draft_actor": texts([_common(draft.act.actor) for draft in drafts]),
        "draft_source": texts([_common(draft.act.source) for draft in drafts]),
        "draft_action": texts([_common(draft.act.action) for draft in drafts]),
        "draft_told": texts([None if job is None else told_job(job) for job in alone]),
        "drafted": int4s([draft_of[place] for place in places]),
        "drafted_id": uuids_of([jobs[place].job.job_id for place in places]),
        "drafted_printed": texts(printed_ids([jobs[place].job for place in places])),
    }


def read_page(session: Session, query: AuditLogQuery) -> AuditLogPage:
    """See `Registry.audit_log`."""
    chosen = choose(query, _candidates(session, query))
    if not chosen.keys:
        return AuditLogPage((), chosen.next_cursor)
    bindings = {
        "instants": int8s([at_ms for at_ms, _ in chosen.keys]),
        "numbers": int8s([number for _, number in chosen.keys]),
    }
    found = {(row[1], row[0]): AuditEntry(*row) for row in session.rows(SQL["entries"], bindings)}
    # What was trimmed since it was chosen is left out.
    return AuditLogPage(tuple(found[key] for key in chosen.keys if key in found), chosen.next_cursor)


def _candidates(session: Session, query: AuditLogQuery) -> Candidates:
    statement, (at_ms, number) = FACTS[source_of(query)], start_of(query)
    filters = {"tenant_id": query.tenant_id, "actor": query.actor, "subject": query.subject}
    bounds = {**filters, "from_ms": query.from_ms or 0, "count": CHUNK}
    while True:
        rows = session.rows(statement, {**bounds, "at_ms": at_ms, "number": number})
        chunk = [Facts(*row) for row in rows]
        yield chunk
        if len(chunk) < CHUNK:
            return
        at_ms, number = chunk[-1].at_ms, chunk[-1].number


def trim(session: Session, before_ms: int, limit: int) -> int:
    """See `Registry.trim_audit_log`."""
    return len(session.write(SQL["trim"], {"before_ms": before_ms, "count": limit}))
