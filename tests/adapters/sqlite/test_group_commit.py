"""Operations that are queued together share a commit, but not a fate."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tickwheel.adapters.sqlite import SqliteStore
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.ports.store import InsertStatus

from .jobs import one_off


class Gate:
    """Holds the writer's thread inside an operation, so that what follows queues up as one group."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._entered, self._opened = threading.Event(), threading.Event()

    async def __aenter__(self) -> "Gate":
        self._held = asyncio.ensure_future(self._store._writer.submit(self._wait))
        await asyncio.get_running_loop().run_in_executor(None, self._entered.wait)
        return self

    async def __aexit__(self, *_: object) -> None:
        # One turn of the loop: the operations of the test have been put into the queue by then.
        await asyncio.sleep(0)
        self._opened.set()
        await self._held

    def _wait(self, session: Session) -> None:
        self._entered.set()
        self._opened.wait(timeout=20)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each commit."""
    seen: list[str] = []
    run = Session.run

    def watched(self: Session, sql: str, bindings: object = None) -> int:
        if sql == "COMMIT":
            seen.append(sql)
        return run(self, sql, bindings)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(Session, "run", watched)
    return seen


def failing(session: Session) -> None:
    """Writes something, then fails."""
    session.run("UPDATE totals SET jobs = 1000")
    raise ZeroDivisionError("on purpose")


async def gathered(store: SqliteStore, *waits: Callable[[], object]) -> list[object]:
    async with Gate(store):
        futures = [asyncio.ensure_future(wait()) for wait in waits]  # type: ignore[call-overload]  # coroutines
    return list(await asyncio.gather(*futures, return_exceptions=True))


async def test_what_is_queued_together_shares_one_commit(store: SqliteStore, commits: list[str]) -> None:
    await gathered(store, *[lambda n=n: store.insert_jobs([one_off(n)]) for n in range(50)])
    assert len(commits) == 2  # of the gate, and of all fifty
    assert (await store.counts()).jobs == 50


async def test_a_failing_operation_takes_only_its_own_writes_with_it(
    store: SqliteStore, commits: list[str]
) -> None:
    first, failed, last = await gathered(
        store,
        lambda: store.insert_jobs([one_off(1)]),
        lambda: store._writer.submit(failing),
        lambda: store.drop_dead("default", b"x" * 16, 0),
    )
    assert first[0].status is InsertStatus.CREATED  # type: ignore[index]  # an insert's answer
    assert isinstance(failed, ZeroDivisionError)
    assert last is False
    assert (await store.counts()).jobs == 1
    assert len(commits) == 2


async def test_a_bad_insert_does_not_fail_the_inserts_it_was_merged_with(store: SqliteStore) -> None:
    good, bad, other = await gathered(
        store,
        lambda: store.insert_jobs([one_off(1)]),
        lambda: store.insert_jobs([one_off(2), one_off(3, payload="\ud800")]),
        lambda: store.insert_jobs([one_off(4)]),
    )
    assert isinstance(bad, UnicodeEncodeError)
    assert [answer[0].status for answer in (good, other)] == [InsertStatus.CREATED] * 2  # type: ignore[index]
    assert (await store.counts()).jobs == 2, "the bad call wrote nothing at all"


async def test_merged_inserts_see_one_another_s_keys(store: SqliteStore) -> None:
    answers = await gathered(
        store, *[lambda n=n: store.insert_jobs([one_off(n, idempotency_key="k")]) for n in range(5)]
    )
    statuses = [answer[0].status for answer in answers]  # type: ignore[index]  # insert answers
    assert sorted(statuses) == [InsertStatus.CREATED] + [InsertStatus.REPLAYED] * 4
    assert len({answer[0].job_id for answer in answers}) == 1  # type: ignore[index]  # insert answers


async def test_a_failing_decision_writes_nothing_and_reaches_its_caller(store: SqliteStore) -> None:
    new = one_off(1)
    await store.insert_jobs([new])

    def refuse(*_: object) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await store.change_job("default", new.job.job_id, refuse)  # type: ignore[arg-type]  # it never returns
    assert (await store.counts()).jobs == 1


async def test_a_closed_store_refuses_and_closing_twice_is_harmless(store: SqliteStore) -> None:
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.insert_jobs([one_off(1)])
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.counts()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.check()


async def test_a_commit_whose_fate_is_unknown_says_so(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Session.run

    def lie(self: Session, sql: str, bindings: object = None) -> int:
        changed = run(self, sql, bindings)  # type: ignore[arg-type]  # passed on as it came
        if sql == "COMMIT":
            raise apsw.IOError("the sync failed")
        return changed

    with monkeypatch.context() as patch:
        patch.setattr(Session, "run", lie)
        with pytest.raises(OutcomeUnknown, match="the sync failed"):
            await store.insert_jobs([one_off(1)])
    answers = await store.insert_jobs([one_off(1), one_off(2)])
    assert [answer.status for answer in answers] == [InsertStatus.REPLAYED, InsertStatus.CREATED]


async def test_a_database_locked_by_others_refuses_the_group_at_once_and_recovers(
    store: SqliteStore, folder: Path
) -> None:
    await store._writer.submit(lambda session: session.connection.set_busy_timeout(20))
    other = apsw.Connection(str(folder / "tickwheel.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        answers = await asyncio.gather(
            *(store.insert_jobs([one_off(n)]) for n in range(50)), return_exceptions=True
        )
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        assert "locked" in str(answers[0])
        assert (await store.counts()).jobs == 0, "reads go on"
    finally:
        other.execute("ROLLBACK")
        other.close()
    await store.insert_jobs([one_off(1)])
    assert (await store.counts()).jobs == 1
