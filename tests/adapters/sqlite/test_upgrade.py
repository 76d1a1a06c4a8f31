"""A database that an earlier version wrote goes on as it was."""

from pathlib import Path

import apsw
from tests.adapters.sqlite.jobs import DUE_MS, one_off, query

from tickwheel.adapters.sqlite import migrate as migrations
from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.adapters.sqlite.connection import DATABASE_NAME, Session, open_writer
from tickwheel.adapters.sqlite.insert import insert_jobs
from tickwheel.domain.run import RunState
from tickwheel.testing.virtual_clock import VirtualClock

PLANS = {
    "SELECT job_id FROM runs WHERE state BETWEEN 1 AND 3": "runs_in_flight",
    "SELECT job_id FROM jobs WHERE tenant_id = 'default' AND state = 2 AND state BETWEEN 1 AND 3": "jobs_by_state",
    "SELECT job_id FROM jobs WHERE state BETWEEN 2 AND 4 AND updated_ms > 0": "jobs_over",
    "SELECT job_id FROM runs WHERE listed = 0 AND state >= 5 AND state = 7": "runs_of_one_offs",
    "SELECT job_id FROM runs WHERE listed = 1 AND state NOT BETWEEN 4 AND 7 AND job_id > x'00'": "runs_open",
}


def write_as_before(path: Path) -> None:
    """Version 2 with a job whose run is in flight."""
    connection = open_writer(path)
    connection.execute(
        "CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER)"
    )
    for migration in migrations.known_migrations()[:2]:
        connection.execute("INSERT INTO migrations VALUES (?, ?, 0)", (migration.version, migration.name))
        connection.execute(migration.sql).fetchall()
    new = one_off(1)
    insert_jobs(Session(connection), [new], DUE_MS)
    connection.execute(
        "INSERT INTO runs (scheduled_ms, job_id, state, fence, lane, listed, worker, due_ms, timer_gen, lease_ms)"
        " VALUES (?1, ?2, 2, 5, 2, 0, 77, ?1, 1, 1)",
        (DUE_MS + 1, new.job.job_id),
    )
    connection.close()


async def test_runs_in_flight_and_timers_survive_the_new_indexes(tmp_path: Path, clock: VirtualClock) -> None:
    write_as_before(tmp_path / DATABASE_NAME)
    assert len(migrations.pending_migrations(tmp_path)) == len(migrations.known_migrations()) - 2
    store = await open_sqlite_store(tmp_path, clock)
    try:
        await store.acquire("after")
        [run] = await store.expired(clock.now_ms(), 10)
        assert (run.state, run.fence) == (RunState.DISPATCHED, 5)
        assert (await store.counts()).waiting == 1
    finally:
        await store.aclose()
    for sql, index in PLANS.items():
        [(*_, step)] = query(tmp_path, f"EXPLAIN QUERY PLAN {sql}")
        assert index in step


async def test_a_run_that_ends_takes_the_timer_along_that_was_stored_before(
    tmp_path: Path, clock: VirtualClock
) -> None:
    write_as_before(tmp_path / DATABASE_NAME)
    await (await open_sqlite_store(tmp_path, clock)).aclose()
    connection = apsw.Connection(str(tmp_path / DATABASE_NAME))
    connection.execute("UPDATE runs SET state = 4")
    assert connection.execute("SELECT count(*) FROM timers").get == 0
    assert connection.execute("SELECT waiting FROM totals").get == 0
    connection.close()
