"""The feed against a real server: transactions that commit late and out of order, servers that crash."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tickwheel.adapters.postgresql import migrate, shard_rows
from tickwheel.adapters.postgresql.feed import feed, take_snapshot
from tickwheel.adapters.postgresql.partitions import make_window
from tickwheel.adapters.postgresql.session import COMPLETIONS, FEED, Session, connect
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import DAY_MS
from tickwheel.ports.shards import FeedSessionLost, HeldPair, Pair, Snapshot
from tickwheel.testing.virtual_clock import START_MS

from ...servers.postgresql import PostgresServer

WRITERS = 4
HELD_SECONDS = 2.0
INSERT = """INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
SELECT %(due)s, gen_random_uuid(), %(due)s, 0, 1, n %% 8, 2 FROM generate_series(1, %(count)s) AS n
RETURNING job_id"""
FAR_MS = 1 << 50


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    session = connect(url, FEED)
    yield session
    session.close()


class Writer(threading.Thread):
    """Commits many small transactions, and holds every fifth one open for a while, the last one longest."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__(name=f"feed-writer-{number}")
        self._url, self._number = url, number
        self.written: list[bytes] = []
        self.gate = threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for number in range(40):
                with connection.transaction():
                    rows = connection.execute(INSERT, {"due": START_MS + number, "count": 10}).fetchall()
                    if number % 5 == self._number:
                        time.sleep(0.05 * (1 + self._number))
                self.written += [row[0].bytes for row in rows]
            with connection.transaction():
                rows = connection.execute(INSERT, {"due": START_MS, "count": 10}).fetchall()
                self.gate.wait(HELD_SECONDS * 10)
            self.written += [row[0].bytes for row in rows]


def test_every_timer_comes_once_though_commits_are_held_open_for_seconds(url: str, session: Session) -> None:
    """B3: a watermark by time or by id would miss what commits late; the snapshot of each poll misses nothing."""
    prev = take_snapshot(session)
    writers = [Writer(url, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    got: list[bytes] = []
    released_s: float | None = None
    began_s = time.monotonic()
    while True:
        alive = any(writer.is_alive() for writer in writers)
        rows, prev = feed(session, prev, range(8), FAR_MS)
        got += rows["job_id"].tolist()
        if released_s is None and time.monotonic() - began_s > HELD_SECONDS:
            released_s = time.monotonic()
            for writer in writers:  # long after later transactions were seen
                writer.gate.set()
        if not alive:
            break
    for writer in writers:
        writer.join()
    written = [job_id for writer in writers for job_id in writer.written]
    assert len(written) == WRITERS * 41 * 10
    assert len(set(got)) == len(got), "none twice"
    assert set(got) == set(written), "none lost"


def test_shards_and_instants_that_were_not_asked_for_stay_away(url: str, session: Session) -> None:
    prev = take_snapshot(session)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(INSERT, {"due": START_MS, "count": 80})
        connection.execute(INSERT, {"due": START_MS + 500, "count": 80})
    assert len(feed(session, prev, [1, 2], FAR_MS).rows) == 40
    assert len(feed(session, prev, range(8), START_MS + 500).rows) == 80
    assert len(feed(session, prev, [], FAR_MS).rows) == 0


def test_another_sessions_snapshot_is_refused_but_a_stored_one_is_not(url: str, session: Session) -> None:
    """B5: transaction ids may be given out again after a crash, below a snapshot that was only in memory."""
    prev = take_snapshot(session)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(INSERT, {"due": START_MS, "count": 10})
    other = connect(url, FEED)
    try:
        with pytest.raises(FeedSessionLost):
            feed(other, prev, range(8), FAR_MS)
        assert len(feed(other, Snapshot(prev.text), range(8), FAR_MS).rows) == 10
    finally:
        other.close()


def test_a_standbys_snapshot_is_refused(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: a standby's snapshot lists no open transaction, so what commits late would be lost."""
    monkeypatch.setattr(Session, "rows", lambda self, statement, params=None: [("1:1:", True)])
    with pytest.raises(StoreUnavailable, match="standby"):
        take_snapshot(session)


def test_text_that_is_no_snapshot_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        feed(session, Snapshot("1:1:'; DROP TABLE timers"), range(8), FAR_MS)


@pytest.mark.slow
def test_after_a_crash_of_the_server_the_stored_pair_finds_every_timer() -> None:
    """B5: `prev` from before the crash may lie above the ids given out after it; the pair's own commit did not."""
    with PostgresServer(durable=True) as server:
        url = server.create_database("store")
        migrate(url)
        now_ms = int(time.time() * 1000)
        with psycopg.connect(url, autocommit=True) as connection:
            make_window(connection, now_ms, now_ms + DAY_MS, now_ms)
        owner = connect(url, COMPLETIONS)
        shard_rows.enlist(owner, "a")
        [taken] = shard_rows.take(owner, "a", {3: 0})
        reader = connect(url, FEED)
        stored = take_snapshot(reader)
        assert shard_rows.store_pairs(reader, "a", [HeldPair(3, taken.epoch, Pair(now_ms, stored))]) == []
        burnt = psycopg.connect(url)  # an open transaction draws ids that leave nothing durable
        burnt.execute("SELECT pg_current_xact_id()")
        prev = take_snapshot(reader)
        server.kill()
        server.start()
        for ended in (owner, reader, burnt):
            ended.close()
        heir = connect(url, FEED)
        inserted = insert_one(url, now_ms)
        with pytest.raises(FeedSessionLost):
            feed(heir, prev, [3], FAR_MS)
        [again] = shard_rows.take(heir, "a", {3: 1})
        assert again.pair is not None
        assert again.pair.snapshot.text == stored.text
        assert feed(heir, again.pair.snapshot, [3], FAR_MS).rows["job_id"].tolist() == [inserted]
        heir.close()


def insert_one(url: str, due_ms: int) -> Any:
    """A timer of shard 3."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            """INSERT INTO tickwheel.timers (due_ms, job_id, scheduled_ms, armed_ms, gen, shard, flags)
               VALUES (%(due)s, gen_random_uuid(), %(due)s, 0, 1, 3, 2) RETURNING job_id""",
            {"due": due_ms},
        ).fetchone()
    assert row is not None
    return row[0].bytes
