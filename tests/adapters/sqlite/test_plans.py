"""No statement scans a table: each reads batches, indexes and keys."""

import re
from collections.abc import Iterator

import apsw
import pytest

from tickwheel.adapters.sqlite.migrate import migrate
from tickwheel.adapters.sqlite.statements import load_statements

AREAS = ("change", "claim", "complete", "insert", "lists", "load", "ownership", "runs", "slots", "sweep", "views")
HOT = {
    ("insert", "insert_jobs"),
    ("insert", "insert_first_timers"),
    ("claim", "claim_first"),
    ("claim", "claim_seen"),
    ("claim", "observe"),
    ("claim", "start_waiting"),
    ("claim", "insert_timers"),
    ("complete", "succeed"),
    ("complete", "observe"),
    ("complete", "wait_again"),
    ("complete", "renew"),
    ("load", "load_timers"),
    ("load", "load_work"),
    ("load", "page_end"),
}
SMALL = ("shards", "totals")  # a fixed number of rows
BOUNDED = ("SCAN runs USING INDEX runs_in_flight",)  # as many rows as attempts are going on
TABLES = (
    "jobs",
    "job_tags",
    "timers",
    "runs",
    "attempts",
    "results",
    "dead_letters",
    "idempotency_keys",
    "workers",
)
ALIASES = ("j", "t", "r", "w", "d")
STATEMENTS = [(area, name) for area in AREAS for name in load_statements(area)]


@pytest.fixture(scope="module")
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    migrate(connection, 0)
    yield connection
    connection.close()


def plan_of(database: apsw.Connection, sql: str) -> list[str]:
    names = dict.fromkeys(re.findall(r":([a-z_]+)", sql))
    return [str(row[3]) for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", names)]


@pytest.mark.pitfall(55)
@pytest.mark.parametrize(("area", "name"), STATEMENTS)
def test_statement_never_scans_a_table(database: apsw.Connection, area: str, name: str) -> None:
    for step in plan_of(database, load_statements(area)[name]):
        assert "AUTOMATIC" not in step, "an index is built for each execution"
        scanned = re.match(r"SCAN (\w+)(?! VIRTUAL)\b", step)
        if scanned and step not in BOUNDED and scanned[1] not in SMALL and "VIRTUAL" not in step:
            assert scanned[1] not in TABLES + ALIASES or (area, name, scanned[1]) in SUBQUERY_NAMES, step


SUBQUERY_NAMES = {("sweep", "candidates", "r")}
"""Aliases of bounded subqueries that are called like a table elsewhere."""


@pytest.mark.parametrize(("area", "name"), sorted(HOT))
def test_hot_statement_walks_its_batch_once(database: apsw.Connection, area: str, name: str) -> None:
    plan = plan_of(database, load_statements(area)[name])
    assert not [step for step in plan if "TEMP B-TREE" in step]
    scans = [step for step in plan if step.startswith("SCAN")]
    assert all("VIRTUAL" in step or "subquery" in step for step in scans), plan
    assert sum("VIRTUAL" in step for step in scans) <= 1


def test_the_scan_check_bites(database: apsw.Connection) -> None:
    plan = plan_of(database, "SELECT * FROM jobs WHERE payload = 'x'")
    assert plan == ["SCAN jobs"]


@pytest.mark.parametrize(
    ("area", "name"),
    [("insert", "insert_jobs"), ("claim", "claim_first"), ("claim", "claim_seen"), ("complete", "succeed")],
)
def test_hot_write_opens_no_temporary_table_per_row(database: apsw.Connection, area: str, name: str) -> None:
    # A condition of an index that lists more than two constants would, and so would an INSERT in a trigger.
    sql = load_statements(area)[name]
    names = dict.fromkeys(re.findall(r":([a-z_]+)", sql))
    ops = [(str(op[1]), int(str(op[2])), str(op[5])) for op in database.execute(f"EXPLAIN {sql}", names)]
    programs = [number for number, op in enumerate(ops) if op[0] == "Init"]
    parts = [ops[start:end] for start, end in zip(programs, [*programs[1:], len(ops)], strict=True)]
    per_row = parts[0][next(n for n, op in enumerate(parts[0]) if op[0] == "OpenWrite") :]
    assert "OpenEphemeral" not in [op[0] for op in per_row]
    for part in parts[1:]:
        if "run_waits" not in part[0][2]:
            assert "OpenEphemeral" not in [op[0] for op in part], part[0]
