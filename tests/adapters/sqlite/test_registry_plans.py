"""Records and pages of the audit log are read by keys and indexes, in the order in which they are shown."""

import re
from collections.abc import Iterator

import apsw
import pytest

from tickwheel.adapters.sqlite import audit_log, registry
from tickwheel.adapters.sqlite.migrate import migrate
from tickwheel.ports.audit_log_pages import Source


@pytest.fixture(scope="module")
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    migrate(connection, 0)
    yield connection
    connection.close()


def plan_of(database: apsw.Connection, sql: str) -> list[str]:
    names = dict.fromkeys(re.findall(r":([a-z_]+)", sql))
    bindings = names or (None,) * sql.count("?")
    return [str(row[3]) for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]


@pytest.mark.parametrize("source", list(Source))
def test_a_page_is_walked_in_the_order_of_its_index(database: apsw.Connection, source: Source) -> None:
    plan = plan_of(database, audit_log.FACTS[source])
    [search] = [step for step in plan if "audit_log" in step]
    assert search.startswith(f"SEARCH audit_log USING INDEX audit_log_{source.value} ("), search
    assert "at_ms>" in search
    assert not [step for step in plan if "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", ["entries", "trim"])
def test_entries_are_found_by_number(database: apsw.Connection, name: str) -> None:
    steps = [step for step in plan_of(database, audit_log.SQL[name]) if "audit_log" in step]
    assert steps[0].startswith("SEARCH audit_log USING INTEGER PRIMARY KEY (")
    assert not [step for step in steps if step.startswith("SCAN")]


@pytest.mark.parametrize("name", ["record", "put_record", "delete_record", "records", "touch_records"])
def test_records_are_found_by_key(database: apsw.Connection, name: str) -> None:
    plan = plan_of(database, registry.SQL[name])
    assert not [step for step in plan if step.startswith("SCAN records") or "TEMP B-TREE" in step]
