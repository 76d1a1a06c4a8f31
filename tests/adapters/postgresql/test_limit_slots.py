"""Slots of limits on PostgreSQL: exact between nodes that claim at once, found by index, nothing to other runs."""

import asyncio
import random
from collections.abc import Sequence

import psycopg
import pytest
from msgspec.structs import replace

from tickwheel.adapters.postgresql import open_postgresql_store, slots
from tickwheel.adapters.postgresql.arrays import texts
from tickwheel.adapters.postgresql.batches import decided
from tickwheel.adapters.postgresql.session import CLAIMS, connect
from tickwheel.adapters.postgresql.store import PostgresqlStore
from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.run import RunState
from tickwheel.ports.store import NewJob
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import SPEC, Arena
from ...conformance.store.owner import Held, Owner
from ...servers.postgresql_databases import compacted_store, emptied_store
from .backend import UrlBackend
from .plans import accesses

NODES, ROUNDS, MOST = 4, 6, 5


class Node:
    """One of several owners of one database, each with shards of its own."""

    def __init__(self, number: int, arena: Arena, store: PostgresqlStore) -> None:
        self.shards = range(number, SHARD_COUNT, NODES)
        self.arena, self.store = arena, store
        self.arena.store = store
        self.owner = Owner(arena, f"node-{number}")
        self.open: list[Held] = []

    async def take_shards(self) -> None:
        await self.store.enlist(self.owner.worker)
        taken = await self.store.take(self.owner.worker, dict.fromkeys(self.shards, 0))
        self.owner.epochs = [0] * SHARD_COUNT
        for one in taken:
            self.owner.epochs[one.shard] = one.epoch

    async def claim(self, jobs: Sequence[NewJob]) -> None:
        answers = await self.owner.claim_rows(*(self.owner.claim_row(new) for new in jobs))
        assert {answer.verdict for answer in answers} <= {ClaimVerdict.WON, ClaimVerdict.LIMITED}
        self.open += [answer for answer in answers if answer.won]

    async def end_some(self, count: int) -> None:
        ends, self.open = self.open[:count], self.open[count:]
        for held in ends:
            assert (await self.owner.complete(held, RunState.SUCCEEDED)).applied


async def test_nodes_that_claim_at_once_never_start_more_than_the_limit() -> None:
    url, clock, rng = emptied_store(), VirtualClock(), random.Random(3)
    nodes = []
    for number in range(NODES):
        store = await open_postgresql_store(url, clock, pinned_clock=clock)
        node = Node(number, Arena(UrlBackend(url, clock), clock), store)
        await node.take_shards()
        nodes.append(node)
    limits = (Limit(MOST, key="k"), Limit(MOST + 1, Scope.TENANT))
    spec = replace(SPEC, concurrency=limits)
    started = 0
    for _ in range(ROUNDS):
        batches = []
        for node in nodes:
            node.arena._numbers = nodes[0].arena._numbers
            jobs = [node.arena.one_off(spec=spec, shard=rng.choice(node.shards)) for _ in range(8)]
            await node.store.insert_jobs(jobs)
            batches.append(jobs)
        ends = [node.end_some(rng.randrange(3)) for node in nodes]
        await asyncio.gather(*(node.claim(jobs) for node, jobs in zip(nodes, batches, strict=True)), *ends)
        in_flight = sum(len(node.open) for node in nodes)
        assert in_flight <= MOST
        started += in_flight
        with psycopg.connect(url) as connection:
            counts = connection.execute(
                "SELECT count(*) FROM tickwheel.limit_slots GROUP BY counted ORDER BY counted"
            ).fetchall()
            flying = connection.execute("SELECT count(*) FROM tickwheel.runs WHERE state IN (1, 2, 3)").fetchone()
        assert counts == [(in_flight,)] * 2
        assert flying == (in_flight,)
    assert started > ROUNDS * 2
    for node in nodes:
        await node.end_some(MOST)
        assert await node.store.audit_slots() == 0
        await node.store.aclose()


async def test_the_check_finds_a_slot_without_a_run() -> None:
    url, clock = emptied_store(), VirtualClock()
    store = await open_postgresql_store(url, clock, pinned_clock=clock)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tickwheel.limit_slots VALUES ('key', 1, gen_random_uuid(), 3, false),"
            " ('key', 1, gen_random_uuid(), 3, true)"
        )
    assert await store.audit_slots() == 2
    await store.aclose()


async def test_a_run_without_limits_has_nothing_to_do_with_slots() -> None:
    url, clock = emptied_store(), VirtualClock()
    arena = Arena(UrlBackend(url, clock), clock)
    await arena.open()
    owner = await Owner(arena).acquire()
    await arena.insert(
        new := arena.one_off(), limited := arena.one_off(spec=replace(SPEC, concurrency=(Limit(1),)))
    )
    await owner.complete(await owner.win(new), RunState.SUCCEEDED)
    await owner.complete(await owner.win(limited), RunState.SUCCEEDED)
    with psycopg.connect(url) as connection:
        marks = connection.execute("SELECT limited FROM tickwheel.runs ORDER BY limited NULLS FIRST").fetchall()
        conditions = connection.execute(
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'run_frees_slots' AND tgparentid = 0"
        ).fetchall()
    assert marks == [(None,), (True,)]
    assert "WHEN ((old.limited AND" in conditions[0][0], "it is asked first, so that others pay for no more"
    await arena.store.aclose()


@pytest.fixture(scope="module")
def filled() -> str:
    """A store with many slots, and fresh statistics."""
    url = compacted_store()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tickwheel.limit_slots SELECT 'key' || n % 997, n, gen_random_uuid(), n % 256, n % 20 = 0"
            " FROM generate_series(1, 20000) AS n"
        )
        connection.execute("ANALYZE tickwheel.limit_slots")
    return url


def reads(url: str, statement: bytes) -> set[str]:
    """How it reads the table of slots."""
    session = connect(url, CLAIMS)
    keys = [(bytes([n]) * 16, n) for n in range(1, 40)]
    params = {"counted": texts(["key1", "key2"]), **decided(keys, ("job_id", "scheduled_ms"))}
    found = accesses(session, statement, params)
    session.close()
    return {access.node for access in found if access.relation == "limit_slots"}


@pytest.mark.parametrize("statement", ["running", "waiting", "leave_waiting"])
def test_slots_are_found_by_index(filled: str, statement: str) -> None:
    assert reads(filled, slots.SQL[statement]) <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}


def test_the_end_of_a_run_finds_its_slots_by_index(filled: str) -> None:
    key = b"shard = 3 AND scheduled_ms = 3 AND job_id = '%032d'" % 0
    [node] = reads(filled, b"DELETE FROM tickwheel.limit_slots WHERE " + key)
    assert node == "Index Scan"
