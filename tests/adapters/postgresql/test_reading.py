"""Reads through a pooler, on a server that takes no writes, and by SQL."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from tickwheel.adapters.postgresql import open_postgresql_store
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.run import RunState
from tickwheel.ports.notices import Notice
from tickwheel.ports.registry import NOTIFICATION, Act, Record
from tickwheel.ports.store import JobOrder, JobQuery

from ...conformance.store.decisions import cancel, pause
from ...servers.pgbouncer import NoPgBouncer, PgBouncer
from .calendar import Calendar


@pytest.fixture
def pooler(calendar: Calendar) -> Iterator[PgBouncer]:
    try:
        with PgBouncer(calendar.server) as pooler:
            yield pooler
    except NoPgBouncer as error:
        pytest.skip(str(error))


async def test_reads_work_through_a_pooler_in_transaction_mode(calendar: Calendar, pooler: PgBouncer) -> None:
    """All of them share one server session there, which none of them leaves changed."""
    arena = calendar.arena
    jobs = [
        await calendar.finish(RunState.FAILED),
        arena.one_off(arena.now_ms + 5),
        arena.recurring(arena.now_ms + 7),
    ]
    await arena.insert(*jobs[1:])
    store = await open_postgresql_store(
        calendar.server.url(calendar.database),
        calendar.clock,
        reader_url=pooler.url(calendar.database),
        pinned_clock=calendar.clock,
    )
    try:
        for _ in range(6):  # beyond the number of repeats from which a driver prepares statements
            for new in jobs:
                view = await store.get_job("default", new.job.job_id)
                assert view == await calendar.store.get_job("default", new.job.job_id)
            assert len((await store.list_jobs(JobQuery("default"))).items) == 3
            assert len((await store.list_jobs(JobQuery("default", order=JobOrder.DUE))).items) == 2
            assert len((await store.list_dead("default", 10, None)).items) == 1
            assert len((await store.list_runs("default", jobs[0].job.job_id, 10, None)).items) == 1
            assert (await store.broken_chains(b"", 10)).broken == ()
            assert (await store.counts()).jobs == 3
        with psycopg.connect(pooler.url(calendar.database), prepare_threshold=None) as after:
            assert after.execute("SHOW transaction_read_only").fetchone() == ("off",)
            assert after.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    finally:
        await store.aclose()


async def test_notices_are_read_where_they_are_written(calendar: Calendar) -> None:
    """A place for reads may lag behind: what was taken away would be told once more."""
    store = await open_postgresql_store(
        calendar.server.url(calendar.database),
        calendar.clock,
        reader_url=calendar.server.url("no_such_database"),
        pinned_clock=calendar.clock,
    )
    try:
        rule = Record(NOTIFICATION, "default", "ops", "{}")
        await store.put_record(rule, Act("test", "notification.put"), expected_version=None, shown="{}")
        await store.add_notices([Notice("run.dead_lettered", "default", bytes(15) + b"1")])
        assert [notice.kind for notice in await store.notices(10)] == ["run.dead_lettered"]
        assert await store.notice_groups() == (0, {})
    finally:
        await store.aclose()


@pytest.mark.pitfall(82)
async def test_a_server_that_takes_no_writes_is_not_ready(calendar: Calendar) -> None:
    await calendar.store.check()
    calendar.server.execute(f"ALTER DATABASE {calendar.database} SET default_transaction_read_only = on")
    calendar.cut_connections()
    with pytest.raises(StoreUnavailable):
        await calendar.store.check()
    calendar.server.execute(f"ALTER DATABASE {calendar.database} RESET default_transaction_read_only")
    await until_ready(calendar)


async def until_ready(calendar: Calendar) -> None:
    """A session that was opened meanwhile is read-only for good; the store gives it up."""
    calendar.cut_connections()
    for _ in range(50):
        with suppress(StoreUnavailable):
            return await calendar.store.check()
    raise AssertionError("it never became ready")


async def test_people_with_sql_tools_see_one_row_per_job(calendar: Calendar) -> None:
    """The columns that the compact API's table has, and its words."""
    arena = calendar.arena
    once, paused, cancelled = (arena.one_off(arena.now_ms + 5_000) for _ in range(3))
    often, odd = arena.recurring(arena.now_ms + 60_000), arena.one_off(arena.now_ms + 5, payload='"\\u0000"')
    running, failed = arena.one_off(), await calendar.finish(RunState.FAILED)
    await arena.insert(once, paused, cancelled, often, odd, running)
    await calendar.store.change_job("default", paused.job.job_id, pause)
    await calendar.store.change_job("default", cancelled.job.job_id, cancel)
    await calendar.owner.win(running)
    columns = calendar.rows(
        "SELECT column_name::text, data_type::text, character_maximum_length::int FROM information_schema.columns"
        " WHERE table_name = 'scheduled_jobs' ORDER BY ordinal_position LIMIT 9"
    )
    assert columns == [
        ("job_id", "character varying", 64),
        ("target_endpoint", "character varying", 512),
        ("payload", "jsonb", None),
        ("execute_at", "timestamp with time zone", None),
        ("cron_expression", "character varying", 32),
        ("status", "USER-DEFINED", None),
        ("retry_count", "integer", None),
        ("lease_owner", "character varying", 64),
        ("lease_expires_at", "timestamp without time zone", None),
    ]
    rows = {row[0]: row[1:] for row in calendar.rows("SELECT * FROM tickwheel.scheduled_jobs")}
    words = {job_id: row[4] for job_id, row in rows.items()}
    assert words == {
        job_id_text(once.job.job_id): "PENDING",
        job_id_text(paused.job.job_id): "PENDING",
        job_id_text(cancelled.job.job_id): "CANCELLED",
        job_id_text(often.job.job_id): "PENDING",
        job_id_text(odd.job.job_id): "PENDING",
        job_id_text(running.job.job_id): "DISPATCHED",
        job_id_text(failed.job.job_id): "FAILED",
    }
    assert rows[job_id_text(often.job.job_id)][0] == "http://sink.example/"
    assert rows[job_id_text(often.job.job_id)][3] == "*/10 * * * *"
    assert rows[job_id_text(often.job.job_id)][2].timestamp() * 1000 == arena.now_ms + 60_000
    assert rows[job_id_text(once.job.job_id)][1] == {"n": 1}
    assert rows[job_id_text(odd.job.job_id)][1] is None, "JSON that jsonb can't hold"
    assert rows[job_id_text(running.job.job_id)][6] == "worker-1"
    calendar.rows("DROP ROLE IF EXISTS tickwheel_sql_reader")
    calendar.rows("CREATE ROLE tickwheel_sql_reader LOGIN")
    try:
        calendar.rows("GRANT USAGE ON SCHEMA tickwheel TO tickwheel_sql_reader")
        calendar.rows("GRANT SELECT ON tickwheel.scheduled_jobs TO tickwheel_sql_reader")
        url = calendar.server.url(calendar.database, "tickwheel_sql_reader")
        with psycopg.connect(url, autocommit=True) as reader:
            assert reader.execute("SELECT count(*) FROM tickwheel.scheduled_jobs").fetchone() == (7,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("SELECT * FROM tickwheel.jobs")
    finally:
        calendar.rows("DROP OWNED BY tickwheel_sql_reader")
        calendar.rows("DROP ROLE tickwheel_sql_reader")
