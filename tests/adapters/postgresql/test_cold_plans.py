"""What people ask for is answered from indexes: no statement scans a leaf that holds anything."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tickwheel.adapters.postgresql import dead, lists, views
from tickwheel.adapters.postgresql.arrays import int2s, int4s, int8s, uuids_of
from tickwheel.adapters.postgresql.detaching import SQL as UPKEEP
from tickwheel.adapters.postgresql.records import job_keys, run_keys
from tickwheel.adapters.postgresql.session import READER, Session, connect
from tickwheel.domain.ids import DAY_MS, make_job_id
from tickwheel.testing.virtual_clock import START_MS

from ...servers.postgresql_databases import compacted_store
from .plans import accesses, indexes_of

DAY, NEXT = "20260921", "20260922"
JOBS, RECURRING, RUNS = f"jobs_{DAY}", "jobs_recurring", f"runs_{DAY}_{NEXT}"
TIMERS = f"timers_{DAY}_{NEXT}"

# Ids as they are made: shard and home within them, the number of the job at the end.
_ID = (
    "lpad(to_hex(%(start)s), 12, '0') || lpad(to_hex(n %% 256), 4, '0') || lpad(to_hex({home}), 4, '0')"
    " || lpad(to_hex(n), 12, '0')"
)
_JOBS = """INSERT INTO tickwheel.jobs (job_id, created_ms, updated_ms, effective_ms, home, version, lane, flags,
                            state, named, tenant_id, name, schedule_type, spec, payload, first_instant_ms,
                            first_due_ms, first_gen, scheduled_ms)
SELECT ({id})::uuid, 0, 0, 0, {home}, 1, 2, {flags}, CASE WHEN n %% 100 = 0 THEN 2 ELSE 0 END, false,
       't' || n %% 20, 'name-' || n %% 1000, 'ONE_OFF', '{{}}', '', {first}, {first}, {gen}, {first}
  FROM generate_series(1, 4000) AS n"""
_RUNS = """INSERT INTO tickwheel.runs (scheduled_ms, job_id, shard, state, lane, listed)
SELECT %(start)s + n, ({id})::uuid, n %% 256, 2, 2, {listed} FROM generate_series(1, 4000) AS n"""
_TIMERS = """INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
SELECT %(start)s + n, ({id})::uuid, %(start)s + n, 0, 1, n %% 256, {flags} FROM generate_series(1, 4000) AS n"""
_DEAD = """INSERT INTO tickwheel.dead_letters (scheduled_ms, job_id, failed_ms, shard, tenant_id, cause)
SELECT %(start)s + n, ({id})::uuid, n, n %% 256, 't' || n %% 20, '' FROM generate_series(1, 4000) AS n"""
_TAGS = """INSERT INTO tickwheel.job_tags (tenant_id, tag, job_id)
SELECT 't' || n %% 20, 'tag' || n %% 7, ({id})::uuid FROM generate_series(1, 4000) AS n"""
_OPEN = """INSERT INTO tickwheel.open_runs (job_id, scheduled_ms)
SELECT ({id})::uuid, n FROM generate_series(1, 4000) AS n ON CONFLICT DO NOTHING"""


@pytest.fixture(scope="module")
def url() -> str:
    url = compacted_store()
    home = START_MS // DAY_MS
    once, often = _ID.format(home=home), _ID.format(home=0)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            _JOBS.format(id=once, home=home, flags=2, first="%(start)s + n", gen=1),
            _JOBS.format(id=often, home=0, flags=6, first="NULL::int8", gen="NULL::int4"),
            _RUNS.format(id=once, listed="false"),
            _RUNS.format(id=often, listed="true"),
            _TIMERS.format(id=once, flags=2),
            _TIMERS.format(id=often, flags=6),
            *(each.format(id=once) for each in (_DEAD, _TAGS, _OPEN)),
        ):
            connection.execute(statement.encode(), {"start": START_MS})
        connection.execute("ANALYZE")
    return url


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    session = connect(url, READER)
    # On tables as small as these other plans cost the same, and which it is hangs on when they were analysed last.
    # What no index answers is scanned all the same, and fails.
    session.connection.execute("SET enable_bitmapscan = off")
    session.connection.execute("SET enable_seqscan = off")
    yield session
    session.close()


def job(number: int, home: int = START_MS // DAY_MS) -> bytes:
    due_ms = START_MS if home else None
    random48 = number.to_bytes(6, "big")
    return make_job_id(created_ms=START_MS, shard=number % 256, due_ms=due_ms, random48=random48)


MANY = [job(number) for number in range(1, 200)]
OFTEN = [job(number, 0) for number in range(1, 200)]
KEYS = [(job_id, START_MS + number) for number, job_id in enumerate(MANY, 1)]
AFTER = {"before": UUID(int=(1 << 128) - 1), "count": 250, "tenant_id": "t3"}
FIRST = {
    "shards": int2s([number % 256 for number in range(1, 200)]),
    "due": int8s([at for _, at in KEYS]),
    "ids": uuids_of(MANY),
    "instants": int8s([at for _, at in KEYS]),
    "gens": int4s([1] * len(KEYS)),
}
LIVE = {"ids": uuids_of(OFTEN), "versions": int4s([1] * len(OFTEN)), "count": 8}
DEAD = {"tenant_id": "t3", "failed_ms": 3_000, "job_id": UUID(int=0), "scheduled_ms": 0, "count": 50}
PAGE = {"job_id": UUID(bytes=OFTEN[0]), "before_ms": 1 << 62, "count": 50}
SOON = {"from_ms": START_MS, "until_ms": START_MS + DAY_MS, "due_ms": START_MS, "after": UUID(int=0), "each": 8}
OVER = {"cutoff_ms": 5, "key_cutoff_ms": 5, "at_ms": 0, "after": UUID(int=0), "count": 500}
LATELY = {"from_ms": START_MS, "to_ms": START_MS + 10, "count": 100}
NAMES = {"tenant_id": "t3", "name_from": "name-12", "name_to": "name-12\U0010ffff", "count": 100}

CASES: dict[str, tuple[bytes, Any, dict[str, str]]] = {
    "newest of a tenant": (lists.SQL["newest"], AFTER, {JOBS: f"{JOBS}_tenant_id_job_id_idx"}),
    "count of a tenant": (lists.SQL["count_of_tenant"], AFTER, {}),  # one of the two that begin with the tenant
    "newest in a state": (
        *(lists.SQL["newest_held"], {**AFTER, "state": 2}),
        {JOBS: f"{JOBS}_tenant_id_state_job_id_idx"},
    ),
    "newest with a tag": (lists.SQL["newest_with_tag"], {**AFTER, "tag": "tag3"}, {"job_tags": "job_tags_pkey"}),
    "a name prefix": (lists.SQL["named_like"], NAMES, {}),
    "soonest due": (lists.SQL["soonest"], SOON, {TIMERS: f"{TIMERS}_pkey"}),
    "started lately": (lists.SQL["started_lately"], LATELY, {RUNS: f"{RUNS}_pkey"}),
    "facts of jobs": (lists.SQL["facts"], job_keys(MANY), {JOBS: f"{JOBS}_pkey"}),
    "states of runs": (lists.SQL["states_by_key"], run_keys(KEYS), {RUNS: f"{RUNS}_pkey"}),
    "dead letters": (lists.SQL["dead_letters"], DEAD, {}),
    "jobs": (views.SQL["jobs"], job_keys(MANY), {JOBS: f"{JOBS}_pkey"}),
    "runs by key": (views.SQL["runs_by_key"], run_keys(KEYS), {RUNS: f"{RUNS}_pkey"}),
    "first timers of one-offs": (views.SQL["first_timers"], FIRST, {TIMERS: f"{TIMERS}_pkey"}),
    "live timers of recurring jobs": (views.SQL["latest_timers"], LIVE, {TIMERS: f"{TIMERS}_job_id_due_ms_idx"}),
    "latest runs": (
        *(views.SQL["latest_runs"], {"ids": uuids_of(OFTEN)}),
        {RUNS: f"{RUNS}_job_id_scheduled_ms_idx"},
    ),
    "open runs": (views.SQL["open_runs"], {"ids": uuids_of(MANY[:20])}, {}),
    "runs of a job": (views.SQL["runs_of_job"], PAGE, {RUNS: f"{RUNS}_job_id_scheduled_ms_idx"}),
    "chains": (
        *(views.SQL["chains"], {"after": UUID(int=0), "count": 100}),
        {RECURRING: f"{RECURRING}_job_id_idx"},
    ),
    "definitions that are over": (UPKEEP["over"], OVER, {RECURRING: f"{RECURRING}_updated_ms_job_id_idx"}),
    "far one-offs that are over": (UPKEEP["once"], OVER, {RECURRING: f"{RECURRING}_first_instant_ms_job_id_idx"}),
}
FILLED = {JOBS, RECURRING, RUNS, TIMERS, "dead_letters", "job_tags", "open_runs"}


@pytest.mark.parametrize("case", CASES)
def test_an_index_answers(session: Session, case: str) -> None:
    statement, params, wanted = CASES[case]
    found = accesses(session, statement, params)
    scanned = [access for access in found if access.node == "Seq Scan" and access.relation in FILLED]
    assert not scanned
    for leaf, index in wanted.items():
        assert indexes_of([access for access in found if access.relation == leaf], leaf) == {leaf: index}


@pytest.mark.parametrize("case", ["jobs", "runs by key", "first timers of one-offs", "facts of jobs"])
def test_only_the_leaves_of_what_is_asked_for_are_looked_at(session: Session, case: str) -> None:
    statement, params, _ = CASES[case]
    found = {access.relation for access in accesses(session, statement, params) if "_2026" in access.relation}
    assert found <= {JOBS, RUNS, TIMERS}


@pytest.mark.parametrize(
    "case", ["newest of a tenant", "live timers of recurring jobs", "latest runs", "runs of a job"]
)
def test_the_plan_of_a_read_of_all_leaves_is_kept(url: str, case: str) -> None:
    """Planning it takes longer than running it; what looks into few leaves is planned anew, which prunes."""
    statement, params, _ = CASES[case]
    session = connect(url, READER)
    try:
        for _ in range(12):
            session.rows(statement, params)
        [[kept]] = session.rows(b"SELECT sum(generic_plans)::int8 FROM pg_prepared_statements")
        assert kept > 0
    finally:
        session.close()


def test_counts_of_large_tables_are_estimates(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "SMALL_PAGES", 0)
    monkeypatch.setattr(dead, "COUNTED_DEAD", 100)
    counts = dead.read_counts(session)
    assert (counts.jobs, counts.waiting, counts.dead_letters) == (8_000, 8_000, 4_000)
