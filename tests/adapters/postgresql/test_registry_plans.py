"""Pages of the audit log come from its indexes, in the order in which they are shown; nothing is sorted."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tickwheel.adapters.postgresql import audit_log
from tickwheel.adapters.postgresql.arrays import int8s
from tickwheel.adapters.postgresql.session import READER, WRITER, Session, connect
from tickwheel.ports.audit_log_pages import Source

from ...servers.postgresql_databases import compacted_store
from .plans import accesses

_FILL = """INSERT INTO tickwheel.audit_log (at_ms, tenant_id, actor, source, action, subject)
SELECT n / 3, 't' || n % 20, 'key:' || n % 50, '', CASE WHEN n % 40 = 0 THEN 'job.edit' ELSE 'job.create' END,
       's' || n FROM generate_series(1, 20000) AS n"""
PAGE = {
    "tenant_id": "t3",
    "actor": "key:7",
    "subject": "s70",
    "at_ms": 5_000,
    "number": 1,
    "from_ms": 1_000,
    "count": 250,
}
INDEXES = {
    Source.ALL: "audit_log_pkey",
    Source.TENANT: "audit_log_of_tenant",
    Source.ACTOR: "audit_log_of_actor",
    Source.SUBJECT: "audit_log_of_subject",
    Source.UNCOMMON: "audit_log_uncommon",
    Source.UNCOMMON_OF_TENANT: "audit_log_uncommon_of_tenant",
}


@pytest.fixture(scope="module")
def url() -> str:
    url = compacted_store()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FILL)
        connection.execute("ANALYZE tickwheel.audit_log")
    return url


@pytest.fixture
def reader(url: str) -> Iterator[Session]:
    session = connect(url, READER)
    without_what_small_tables_allow(session)
    yield session
    session.close()


def without_what_small_tables_allow(session: Session) -> None:
    """On tables as small as this one other plans cost the same. What no index answers is scanned all the same."""
    session.connection.execute("SET enable_bitmapscan = off")
    session.connection.execute("SET enable_seqscan = off")


def nodes_of(session: Session, statement: bytes, params: Any) -> str:
    [[plans]] = session.rows(b"EXPLAIN (FORMAT JSON) " + statement, params)
    return repr(plans)


@pytest.mark.parametrize("source", list(Source))
def test_a_page_is_walked_in_the_order_of_its_index(reader: Session, source: Source) -> None:
    statement = audit_log.FACTS[source]
    [access] = accesses(reader, statement, PAGE)
    assert access.index_name == INDEXES[source], access
    assert "'Sort'" not in nodes_of(reader, statement, PAGE)


def test_entries_are_found_by_key(reader: Session) -> None:
    wanted = {"instants": int8s([5, 6, 7]), "numbers": int8s([16, 19, 22])}
    found = [one for one in accesses(reader, audit_log.SQL["entries"], wanted) if one.relation == "audit_log"]
    assert [one.index_name for one in found] == ["audit_log_pkey"]


def test_the_oldest_are_found_without_looking_at_the_rest(url: str) -> None:
    session = connect(url, WRITER)
    without_what_small_tables_allow(session)
    try:
        found = accesses(session, audit_log.SQL["trim"], {"before_ms": 6_000, "count": 500})
        assert {one.index_name for one in found} == {"audit_log_pkey"}
    finally:
        session.close()
