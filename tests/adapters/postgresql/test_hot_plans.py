"""The hot statements look up each row of their batch by key, and touch only the leaves where its instants lie."""

from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from psycopg import sql

from tickwheel.adapters.postgresql import claim, complete, feed, insert, load
from tickwheel.adapters.postgresql.arrays import TIMER_ARRAYS
from tickwheel.adapters.postgresql.batches import Bindings, run_keys
from tickwheel.adapters.postgresql.session import CLAIMS, COMPLETIONS, FEED, LOADS, WRITER, Session, connect
from tickwheel.adapters.postgresql.statements import in_leaves
from tickwheel.domain.columns import CLAIM, COMPLETION, RENEWAL, Rows, empty
from tickwheel.domain.ids import DAY_MS
from tickwheel.testing.virtual_clock import START_MS

from ...conformance.store.arena import Arena
from ...conformance.store.factories import PostgresqlBackend
from ...servers.postgresql_databases import compacted_store
from .plans import Access, accesses, indexes_of

DAY = "20260921"  # of the start of virtual time
NEXT = "20260922"
COUNT = 300
TABLES = (("runs", "tickwheel.runs"), ("jobs", "tickwheel.jobs"))
DAY_LEAVES = (("runs", f"tickwheel.runs_{DAY}_{NEXT}"), ("jobs", f"tickwheel.jobs_{DAY}"))


@pytest.fixture(scope="module")
def url() -> str:
    """A store with enough rows that scanning them would look tempting to nobody, and fresh statistics."""
    url = compacted_store()
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (_FILL_TIMERS, _FILL_RUNS, _FILL_JOBS):
            connection.execute(statement, {"start": START_MS, "home": START_MS // DAY_MS})
        for table in ("timers", "runs", "jobs"):
            connection.execute(sql.SQL("ANALYZE tickwheel.{}").format(sql.Identifier(table)))
    return url


_FILL_TIMERS = """INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
SELECT %(start)s + n, gen_random_uuid(), %(start)s + n, 0, 1, n %% 256, 2 FROM generate_series(1, 20000) AS n"""
_FILL_RUNS = """INSERT INTO tickwheel.runs (scheduled_ms, job_id, shard, state, lane, listed)
SELECT %(start)s + n, gen_random_uuid(), n %% 256, 2, 2, false FROM generate_series(1, 20000) AS n"""
_FILL_JOBS = """INSERT INTO tickwheel.jobs (job_id, created_ms, updated_ms, effective_ms, home, version, lane,
                            flags, state, named, tenant_id, name, schedule_type, spec, payload)
SELECT gen_random_uuid(), 0, 0, 0, %(home)s, 1, 2, 2, 0, false, 't', 'n', 'ONE_OFF', '{}', ''
  FROM generate_series(1, 20000) AS n"""


@pytest.fixture
def session(url: str, request: pytest.FixtureRequest) -> Iterator[Session]:
    session = connect(url, request.param)
    yield session
    session.close()


def batch(dtype: np.dtype[np.void]) -> Rows:
    """Rows of one day, of a batch that is the size of a usual one."""
    rows = empty(dtype, COUNT)
    ids = np.zeros(COUNT, dtype=np.dtype("V16"))
    raw = ids.view(np.uint8).reshape(-1, 16)
    raw[:, 7] = np.arange(COUNT) % 256
    raw[:, 8:10] = np.array([START_MS // DAY_MS >> 8, START_MS // DAY_MS & 255])
    raw[:, 10:12] = np.arange(COUNT).astype(">u2").view(np.uint8).reshape(-1, 2)
    rows["job_id"] = ids
    rows["scheduled_ms"] = START_MS + np.arange(COUNT)
    rows["fence"] = 1 << 32
    if "due_ms" in (dtype.names or ()):
        rows["due_ms"] = rows["scheduled_ms"]
    return rows


def leaves(found: list[Access], table: str) -> set[str]:
    return set(indexes_of(found, table))


@pytest.mark.parametrize("session", [CLAIMS], indirect=True, ids=["claims"])
def test_a_claim_reads_jobs_by_key_in_the_leaves_of_its_batch(session: Session) -> None:
    rows = _rows_to_claim()
    bindings = claim.first_bindings(claim.Claimant("me", None, START_MS, START_MS), rows)
    found = accesses(session, claim.SQL["claim_first"], bindings)
    assert indexes_of(found, "jobs") == {f"jobs_{DAY}": f"jobs_{DAY}_pkey"}
    assert indexes_of(found, "timers") == {f"timers_{DAY}_{NEXT}": f"timers_{DAY}_{NEXT}_pkey"}
    assert leaves(found, "runs") == set(), "the ledger is inserted into, not read"


@pytest.mark.parametrize("session", [CLAIMS], indirect=True, ids=["claims"])
@pytest.mark.parametrize("leaf", [True, False], ids=["of one day", "of several days"])
def test_a_claim_of_one_offs_looks_at_no_job(session: Session, leaf: bool) -> None:
    bindings = claim.once_bindings(claim.Claimant("me", None, START_MS, START_MS), _rows_to_claim())
    statement = in_leaves(claim.SQL["claim_once"], *(DAY_LEAVES if leaf else TABLES))
    found = accesses(session, statement, bindings)
    assert leaves(found, "jobs") == set()
    assert leaves(found, "runs") == set(), "the ledger is inserted into, not read"


def _rows_to_claim() -> Rows:
    rows = batch(CLAIM)
    rows["gen"], rows["max_attempts"], rows["next_ms"] = 1, 4, -1
    return rows


@pytest.mark.parametrize(
    ("session", "statement", "bindings"),
    [
        (
            CLAIMS,
            claim.SQL["claim_once"],
            lambda: claim.once_bindings(claim.Claimant("me", None, START_MS, START_MS), _rows_to_claim()),
        ),
        (COMPLETIONS, complete.SQL["succeed_shortly"], lambda: complete.success_bindings(batch(COMPLETION), None)),
        (LOADS, load.SQL["work"], lambda: load.work_bindings([bytes(row["job_id"]) for row in batch(CLAIM)])),
    ],
    indirect=["session"],
    ids=["claim", "completion", "load"],
)
def test_the_plan_of_a_statement_that_names_its_leaves_is_kept(
    session: Session, statement: bytes, bindings: Callable[[], Bindings]
) -> None:
    """Planning a claim anew costs more than a claim of one run."""
    for _ in range(12):
        session.connection.execute(in_leaves(statement, *DAY_LEAVES), bindings())
    [(kept, anew)] = session.connection.execute(
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE %s",
        (f"%{DAY}%",),
        prepare=False,
    ).fetchall()
    assert kept > 0
    assert anew <= 5


@pytest.mark.parametrize("session", [COMPLETIONS], indirect=True, ids=["completions"])
@pytest.mark.parametrize("leaf", [True, False], ids=["of one day", "of several days"])
def test_a_short_success_reads_the_ledger_by_key(session: Session, leaf: bool) -> None:
    statement = in_leaves(complete.SQL["succeed_shortly"], *(DAY_LEAVES if leaf else TABLES))
    found = accesses(session, statement, complete.success_bindings(batch(COMPLETION), None))
    assert indexes_of(found, "runs") == {f"runs_{DAY}_{NEXT}": f"runs_{DAY}_{NEXT}_pkey"}


@pytest.mark.parametrize("session", [CLAIMS], indirect=True, ids=["claims"])
@pytest.mark.parametrize("name", ["lock_runs", "open_runs"])
def test_a_claim_that_needs_a_look_reads_the_ledger_by_key(session: Session, name: str) -> None:
    keys = [(bytes(row["job_id"]), int(row["scheduled_ms"])) for row in batch(CLAIM)]
    found = accesses(session, claim.SQL[name], run_keys(keys))
    assert indexes_of(found, "runs") == {f"runs_{DAY}_{NEXT}": f"runs_{DAY}_{NEXT}_pkey"}


@pytest.mark.parametrize("session", [COMPLETIONS], indirect=True, ids=["completions"])
def test_a_completion_reads_the_ledger_by_key(session: Session) -> None:
    found = accesses(session, complete.SQL["succeed"], complete.success_bindings(batch(COMPLETION), None))
    assert indexes_of(found, "runs") == {f"runs_{DAY}_{NEXT}": f"runs_{DAY}_{NEXT}_pkey"}
    assert leaves(found, "leases") == {"leases"}


@pytest.mark.parametrize("session", [COMPLETIONS], indirect=True, ids=["completions"])
def test_a_heartbeat_reads_the_ledger_by_key(session: Session) -> None:
    found = accesses(session, complete.SQL["renew"], complete.renewal_bindings(batch(RENEWAL)))
    assert indexes_of(found, "runs") == {f"runs_{DAY}_{NEXT}": f"runs_{DAY}_{NEXT}_pkey"}


@pytest.mark.parametrize("session", [FEED], indirect=True, ids=["feed"])
def test_the_feed_reads_by_transaction_id(session: Session) -> None:
    snapshot = feed.take_snapshot(session)
    query = feed.query(snapshot, range(256), START_MS + 1)
    found = accesses(session, query.as_bytes(session.connection))
    assert set(indexes_of(found, "timers").values()) >= {f"timers_{DAY}_{NEXT}_xid_idx"}
    assert all(index.endswith("_xid_idx") for index in indexes_of(found, "timers").values())
    assert f"timers_{NEXT}_20260923" not in leaves(found, "timers"), "nothing beyond what is held is read"


@pytest.mark.parametrize("session", [LOADS], indirect=True, ids=["loads"])
@pytest.mark.parametrize("now_ms", [START_MS - 1, START_MS + 10_000], ids=["to come", "past"])
def test_a_load_walks_the_key_of_each_shard(session: Session, now_ms: int) -> None:
    query = load.TIMERS.format(
        columns=sql.SQL(TIMER_ARRAYS),
        shards=sql.Literal(list(range(256))),
        from_ms=sql.Literal(START_MS),
        until_ms=sql.Literal(START_MS + 10_000),
        now_ms=sql.Literal(now_ms),
        per_shard=sql.Literal(100),
    )
    found = accesses(session, query.as_bytes(session.connection))
    assert indexes_of(found, "timers") == {f"timers_{DAY}_{NEXT}": f"timers_{DAY}_{NEXT}_pkey"}
    if now_ms > START_MS:  # of leaves that are empty, any index will do
        assert indexes_of(found, "runs")[f"runs_{DAY}_{NEXT}"] == f"runs_{DAY}_{NEXT}_pkey"


@pytest.mark.parametrize("session", [LOADS], indirect=True, ids=["loads"])
@pytest.mark.parametrize("leaf", [True, False], ids=["of one day", "of several days"])
def test_definitions_are_read_by_key(session: Session, leaf: bool) -> None:
    keys = load.work_bindings([bytes(row["job_id"]) for row in batch(CLAIM)])
    found = accesses(session, in_leaves(load.SQL["work"], *(DAY_LEAVES if leaf else TABLES)), keys)
    assert indexes_of(found, "jobs") == {f"jobs_{DAY}": f"jobs_{DAY}_pkey"}


@pytest.mark.parametrize("session", [WRITER], indirect=True, ids=["writer"])
def test_an_insert_reads_no_table(session: Session, tmp_path: object) -> None:
    arena = Arena(PostgresqlBackend.__new__(PostgresqlBackend), _Clock())  # type: ignore[arg-type]  # only its jobs
    jobs = [arena.one_off(tags=("a",)) for _ in range(COUNT)]
    found = accesses(session, insert.SQL["insert_jobs"], insert.new_job_bindings(jobs, None))
    assert found == []


class _Clock:
    def now_ms(self) -> int:
        return START_MS
