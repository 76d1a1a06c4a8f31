"""What waits for what: claims, deposers, changes and keys, each held open by another transaction."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tickwheel.adapters.postgresql import PostgresqlStore, insert, open_postgresql_store
from tickwheel.adapters.postgresql.session import WRITER, connect
from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.errors import KeyInFlight, StoreUnavailable
from tickwheel.domain.run import RunState
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena
from ...conformance.store.owner import Owner
from .backend import UrlBackend

PATIENCE_SECONDS = 20


@pytest.fixture
def other(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's open transaction."""
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def wait_until(predicate: Callable[[], bool], why: str) -> None:
    end_s = time.monotonic() + PATIENCE_SECONDS
    while not predicate():
        assert time.monotonic() < end_s, why
        time.sleep(0.01)


def waiting_count(url: str) -> int:
    """How many sessions of that database wait for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def commit_when_waited_for(url: str, other: psycopg.Connection[Any]) -> threading.Thread:
    """Commit in a thread as soon as somebody waits."""

    def commit() -> None:
        wait_until(lambda: waiting_count(url) == 1, "the claim waits for the transaction")
        other.commit()

    thread = threading.Thread(target=commit)
    thread.start()
    return thread


async def test_deposing_waits_for_an_open_claim(arena: Arena, url: str, other: psycopg.Connection[Any]) -> None:
    """D1: a claim holds its node's row, so a taker's epoch comes after every token that the old one wrote."""
    owner = await Owner(arena, "a").acquire()
    other.execute("SELECT 1 FROM tickwheel.nodes WHERE incarnation = 'a' AND NOT deposed FOR SHARE")

    def depose() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE tickwheel.nodes SET deposed = true WHERE incarnation = 'a'")

    deposer = threading.Thread(target=depose)
    deposer.start()
    wait_until(lambda: waiting_count(url) == 1, "the deposer waits for the claim")
    other.commit()
    deposer.join()
    new = arena.one_off()
    await arena.insert(new)
    assert (await owner.claim(new)).verdict is ClaimVerdict.DEPOSED, "the epoch is its own still, the node is not"


async def test_a_claim_that_waited_for_its_deposer_joins_nothing(
    arena: Arena, url: str, other: psycopg.Connection[Any]
) -> None:
    """D1: the check is a locked read; an unlocked one would still see the row as it was."""
    owner = await Owner(arena, "a").acquire()
    new = arena.one_off()
    await arena.insert(new)
    other.execute("UPDATE tickwheel.nodes SET deposed = true WHERE incarnation = 'a'")
    committer = commit_when_waited_for(url, other)
    held = await owner.claim(new)
    committer.join()
    assert held.verdict is ClaimVerdict.DEPOSED
    assert (await arena.run(new)).state is RunState.SCHEDULED


async def test_a_claim_that_waited_for_an_edit_sees_it(
    arena: Arena, url: str, other: psycopg.Connection[Any]
) -> None:
    """E1: version and state are checked on the locked row, so no occurrence of the old version starts after it."""
    owner = await Owner(arena, "a").acquire()
    new = arena.recurring()
    await arena.insert(new)
    other.execute("UPDATE tickwheel.jobs SET version = version + 1")
    committer = commit_when_waited_for(url, other)
    held = await owner.claim(new, next_ms=arena.now_ms + 60_000)
    committer.join()
    assert held.verdict is ClaimVerdict.RESOLVED
    assert (await arena.view(new)).last_run is None


async def test_a_claim_waits_a_second_at_most(arena: Arena, url: str, other: psycopg.Connection[Any]) -> None:
    """D1: so a takeover waits no longer for it; nothing was written, and the timer stays."""
    owner = await Owner(arena, "a").acquire()
    owner.reads_definitions = False  # so that it looks at the job
    new = arena.one_off()
    await arena.insert(new)
    other.execute("SELECT 1 FROM tickwheel.jobs FOR UPDATE")
    with pytest.raises(StoreUnavailable):
        await owner.claim(new)
    other.rollback()
    assert (await owner.win(new)).attempt == 1


async def test_a_key_that_is_being_inserted_is_waited_for_then_refused(
    arena: Arena, url: str, other: psycopg.Connection[Any]
) -> None:
    """The other request may still fail, so neither its job nor a new one may be promised."""
    other.execute(
        """INSERT INTO tickwheel.idempotency_keys (tenant_id, idempotency_key, job_id, request_hash, created_ms)
           VALUES ('default', 'k', gen_random_uuid(), '', 0)"""
    )
    session = connect(url, WRITER)
    session.run(b"SET lock_timeout = '50ms'")
    new = arena.one_off(idempotency_key="k")
    with pytest.raises(KeyInFlight):
        insert.insert_jobs(session, [new], arena.now_ms)
    other.rollback()
    [answer] = insert.insert_jobs(session, [new], arena.now_ms)
    assert answer.job_id == new.job.job_id
    session.close()


async def test_a_past_due_time_is_moved_up_to_the_servers_clock(url: str) -> None:
    """A2: an insert never lands in a leaf that is over: it might be dropped already, or be dropped unseen."""
    clock = VirtualClock()
    store = await open_postgresql_store(url, clock)
    assert isinstance(store, PostgresqlStore)
    arena = Arena(UrlBackend(url, clock), clock)
    before_ms = await store.now_ms()
    [answer] = await store.insert_jobs([arena.one_off(1_000)])
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT due_ms, scheduled_ms, xid::text <> '0' FROM tickwheel.timers WHERE job_id::text <> ''"
        ).fetchone()
    assert row is not None
    assert row[0] >= before_ms
    assert row[1:] == (1_000, True)
    assert answer.next_ms == 1_000
    await store.aclose()


async def test_definitions_are_read_while_a_page_of_timers_is(
    arena: Arena, other: psycopg.Connection[Any]
) -> None:
    """A page takes as long as many claims: on one connection with them it would hold each of them up."""
    new = arena.one_off(arena.now_ms + 5)
    await arena.insert(new)
    other.execute("LOCK TABLE tickwheel.timers IN ACCESS EXCLUSIVE MODE")
    loading = asyncio.create_task(arena.store.load_timers(0, arena.now_ms + 10, 10))
    await asyncio.sleep(0)
    [work] = await arena.store.load_work([new.job.job_id])
    assert work is not None
    assert not loading.done()
    other.rollback()
    assert len(await loading) == 1
