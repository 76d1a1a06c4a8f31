"""Two nodes that change the same records and write one audit log."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, NamedTuple

import psycopg
import pytest

from tickwheel.adapters.postgresql import PostgresqlStore
from tickwheel.domain.errors import Conflict, VersionMismatch
from tickwheel.domain.job import JobState
from tickwheel.ports.registry import API_KEY, Act, AuditEntry, AuditLogQuery, Record
from tickwheel.ports.store import Change, InsertStatus, JobView
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena
from ...conformance.store.decisions import cancel
from .backend import UrlBackend

FIRST, SECOND = Act("key:first", "token.rotate"), Act("key:second", "token.rotate")


class Nodes(NamedTuple):
    """The stores of two processes on one database."""

    arena: Arena
    first: PostgresqlStore
    second: PostgresqlStore

    async def put(self, number: int, *, version: int | None = None, name: str = "x") -> Record:
        """Even numbers by the first node, odd ones by the second."""
        record = Record(API_KEY, "a", name, str(number))
        store, act = (self.first, FIRST) if number % 2 == 0 else (self.second, SECOND)
        return await store.put_record(record, act, expected_version=version, shown=str(number))

    async def entries(self, **filters: Any) -> list[AuditEntry]:
        """All of them, oldest first."""
        page = await self.second.audit_log(AuditLogQuery(None, 500, **filters))
        return list(reversed(page.items))


@pytest.fixture
async def nodes(arena: Arena, url: str, clock: VirtualClock) -> AsyncIterator[Nodes]:
    second = await UrlBackend(url, clock).open()
    assert isinstance(arena.store, PostgresqlStore)
    assert isinstance(second, PostgresqlStore)
    yield Nodes(arena, arena.store, second)
    await second.aclose()


async def test_their_changes_of_one_record_follow_one_another(nodes: Nodes) -> None:
    before = await nodes.first.records_version()
    stored = await asyncio.gather(*(nodes.put(number) for number in range(40)))
    assert sorted(record.version for record in stored) == list(range(1, 41))
    assert await nodes.second.records_version() == before + 40
    entries = await nodes.entries()
    assert [entry.after for entry in entries] == [
        record.body for record in sorted(stored, key=lambda record: record.version)
    ]
    assert all(one.after == following.before for one, following in pairwise(entries))
    assert Counter(entry.actor for entry in entries) == {FIRST.actor: 20, SECOND.actor: 20}


@pytest.mark.parametrize("version", [0, 1])
async def test_one_version_is_replaced_by_one_of_them(nodes: Nodes, version: int) -> None:
    if version:
        await nodes.put(100)
    answers = await asyncio.gather(*(nodes.put(n, version=version) for n in range(10)), return_exceptions=True)
    refusal = VersionMismatch if version else Conflict
    assert Counter(map(type, answers)) == {Record: 1, refusal: 9}
    assert len(await nodes.entries()) == version + 1


async def test_what_is_deleted_by_both_is_noted_once(nodes: Nodes) -> None:
    for number in range(10):
        await nodes.put(number, name=f"k{number}")
    deleted = await asyncio.gather(
        *(
            store.delete_record(API_KEY, "a", f"k{number}", Act("key:x", "token.revoke"))
            for number in range(10)
            for store in (nodes.first, nodes.second)
        )
    )
    assert Counter(deleted) == {True: 10, False: 10}
    assert len(await nodes.entries(action="token.revoke")) == 10


async def test_a_change_is_seen_no_later_than_its_number(nodes: Nodes, url: str) -> None:
    """A cache that read at number n has all changes up to n, or it would never read the missing one."""
    await nodes.put(0)
    seen = await nodes.second.records_version()
    with psycopg.connect(url) as other:
        other.execute("UPDATE tickwheel.record_changes SET changes = changes + 1")
        other.execute("UPDATE tickwheel.records SET body = 'slow'")
        putting = asyncio.create_task(nodes.put(2, name="y"))
        while not await _is_waiting(url):
            await asyncio.sleep(0)
        assert not putting.done(), "it draws no number before the other one is committed"
        assert await nodes.second.records_version() == seen
        other.commit()
    await putting
    assert await nodes.second.records_version() == seen + 2
    assert [record.body for record in await nodes.second.records(API_KEY)] == ["slow", "2"]


async def _is_waiting(url: str) -> bool:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        waiting = await connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return await waiting.fetchone() is not None


async def test_both_note_uses_at_once(nodes: Nodes) -> None:
    names = [f"k{number:03}" for number in range(200)]
    for number, name in enumerate(names):
        await nodes.put(number, name=name)
    for at_ms in (10, 20, 30):
        await asyncio.gather(
            nodes.first.touch_records(API_KEY, dict.fromkeys(names, at_ms)),
            nodes.second.touch_records(API_KEY, dict.fromkeys(reversed(names), at_ms + 1)),
        )
    assert {record.used_ms for record in await nodes.first.records(API_KEY)} == {31}


async def test_both_trim_at_once(nodes: Nodes) -> None:
    old = AuditEntry(0, 1_000, "a", "key:x", "", "job.create", "s")
    await nodes.first.append_entries([old] * 1_000)
    await nodes.second.append_entries([AuditEntry(0, 5_000, "a", "key:x", "", "job.create", "young")])
    counts = await asyncio.gather(
        *(store.trim_audit_log(5_000, 100) for _ in range(8) for store in (nodes.first, nodes.second))
    )
    assert sum(counts) == 1_000
    assert [entry.subject for entry in await nodes.entries()] == ["young"]


async def test_a_job_that_both_create_is_noted_once(nodes: Nodes) -> None:
    acts = (Act("key:first", "job.create"), Act("key:second", "job.create"))
    created: dict[str, str] = {}
    for number in range(20):
        fields: dict[str, Any] = {"idempotency_key": f"k{number}", "name": f"k{number}"}
        both = [nodes.arena.one_off(**fields), nodes.arena.one_off(**fields)]
        answers = await asyncio.gather(
            nodes.first.insert_jobs(both[:1], acts[0]), nodes.second.insert_jobs(both[1:], acts[1])
        )
        [place] = [n for n, [answer] in enumerate(answers) if answer.status is InsertStatus.CREATED]
        created[f"k{number}"] = acts[place].actor
    entries = await nodes.entries(action="job.create")
    assert len(entries) == 20
    for entry in entries:
        [name] = [name for name in created if f'"job_name":"{name}"' in str(entry.after)]
        assert entry.actor == created[name]


async def test_a_job_that_both_cancel_is_noted_once(nodes: Nodes) -> None:
    jobs = [nodes.arena.one_off(nodes.arena.now_ms + 60_000) for _ in range(10)]
    await nodes.first.insert_jobs(jobs)
    await asyncio.gather(
        *(
            store.change_job("default", new.job.job_id, _cancel_once, Act("key:x", "job.cancel"))
            for new in jobs
            for store in (nodes.first, nodes.second)
        )
    )
    entries = await nodes.entries(action="job.cancel")
    assert len({entry.subject for entry in entries}) == len(entries) == 10


def _cancel_once(view: JobView, now_ms: int) -> Change:
    return Change() if view.job.state is JobState.CANCELLED else cancel(view, now_ms)
