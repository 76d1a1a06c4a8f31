"""Threads with connections: bounded waits, honest outcomes, new connections after lost ones."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest

from tickwheel.adapters.postgresql.errors import translate
from tickwheel.adapters.postgresql.lines import Lines, Work
from tickwheel.adapters.postgresql.session import CLAIMS, READER, WRITER, Session
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable

ONE = b"SELECT 1"
SLOW = b"SELECT pg_sleep(30)"


@pytest.fixture
def lines(url: str) -> Iterator[Lines]:
    lines = Lines(url, WRITER)
    yield lines
    lines.close()


def one(session: Session) -> int:
    return int(session.rows(ONE)[0][0])


def slow_read(session: Session) -> None:
    session.rows(SLOW)


def slow_write(session: Session) -> None:
    session.write(SLOW)


def backend_pid(session: Session) -> int:
    return int(session.rows(b"SELECT pg_backend_pid()")[0][0])


def terminate(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


async def test_work_runs_and_answers(lines: Lines) -> None:
    assert await lines.submit(one) == 1


@pytest.mark.parametrize(
    ("work", "writes", "error"), [(slow_read, False, StoreUnavailable), (slow_write, True, OutcomeUnknown)]
)
async def test_a_caller_waits_a_bounded_time(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, work: Work, writes: bool, error: type[Exception]
) -> None:
    await lines.submit(one)
    monkeypatch.setattr(lines, "_call_seconds", 0.3)
    with pytest.raises(error) as caught:
        await lines.submit(work, writes=writes)
    assert type(caught.value) is error
    monkeypatch.undo()
    assert await lines.submit(one) == 1, "the thread is free again, over a new connection"


async def test_what_waited_too_long_to_begin_is_not_begun(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []

    def note(session: Session) -> None:
        began.append("late")

    await lines.submit(one)
    monkeypatch.setattr(lines, "_call_seconds", 1.0)
    first = asyncio.ensure_future(lines.submit(slow_read))
    await asyncio.sleep(0)
    monkeypatch.setattr(lines, "_call_seconds", 0.2)
    with pytest.raises(StoreUnavailable):
        await lines.submit(note, writes=True)
    with pytest.raises(StoreUnavailable):
        await first
    monkeypatch.undo()
    await lines.submit(one)
    assert began == []


async def test_a_connection_that_died_while_it_was_idle_is_replaced_unseen(lines: Lines, url: str) -> None:
    pid = await lines.submit(backend_pid)
    terminate(url, pid)
    assert await lines.submit(backend_pid, writes=True) != pid


async def test_a_connection_that_dies_under_a_write_leaves_its_outcome_unknown(lines: Lines, url: str) -> None:
    pid = await lines.submit(backend_pid)
    write = asyncio.ensure_future(lines.submit(slow_write, writes=True))
    await asyncio.get_running_loop().run_in_executor(None, terminate, url, pid)
    with pytest.raises(OutcomeUnknown):
        await write
    assert await lines.submit(one) == 1


async def test_a_connection_that_dies_before_the_commit_has_written_nothing(lines: Lines, url: str) -> None:
    def work(session: Session) -> None:
        with session.transaction():
            session.rows(ONE)
            terminate(url, session.connection.info.backend_pid)
            session.rows(ONE)

    with pytest.raises(StoreUnavailable) as caught:
        await lines.submit(work, writes=True)
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_deadlock_is_tried_again(lines: Lines) -> None:
    tries: list[int] = []

    def work(session: Session) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return one(session)

    assert await lines.submit(work, writes=True) == 1
    assert len(tries) == 3


async def test_one_bad_item_does_not_fail_its_neighbours(lines: Lines) -> None:
    def double(session: Session, items: Sequence[int]) -> list[int]:
        if 13 in items:
            raise ValueError("13")
        return [2 * item for item in items]

    blocker = asyncio.ensure_future(lines.submit(lambda session: session.rows(b"SELECT pg_sleep(0.2)")))
    await asyncio.sleep(0)
    calls = [asyncio.ensure_future(lines.submit_bulk(double, [n])) for n in (1, 13, 5)]
    answers = await asyncio.gather(blocker, *calls, return_exceptions=True)
    assert answers[1] == [2]
    assert isinstance(answers[2], ValueError)
    assert answers[3] == [10]


async def test_no_server_is_an_error_and_no_wait_for_ever() -> None:
    lines = Lines("postgresql://postgres@127.0.0.1:1/none", READER)
    with pytest.raises(StoreUnavailable, match="no connection"):
        await lines.submit(one)
    lines.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await lines.submit(one)


async def test_a_server_that_takes_no_writes_is_refused(url: str) -> None:
    """Pitfall 82: after a failover to a read-only node nothing may look as if it worked."""
    lines = Lines(url + "?options=-c%20default_transaction_read_only%3Don", CLAIMS)
    with pytest.raises(StoreUnavailable):
        await lines.submit(one)
    lines.close()


async def test_commits_are_durable_though_the_database_says_otherwise(url: str) -> None:
    """A5: synchronous_commit is never off for our writes."""
    lines = Lines(url + "?options=-c%20synchronous_commit%3Doff", WRITER)
    [[setting]] = await lines.submit(lambda session: session.rows(b"SHOW synchronous_commit"))
    assert setting == "on"
    lines.close()


@pytest.mark.parametrize(
    ("error", "committing", "expected"),
    [
        (psycopg.OperationalError("server closed the connection unexpectedly"), True, OutcomeUnknown),
        (psycopg.OperationalError("connection refused"), False, StoreUnavailable),
        (psycopg.errors.AdminShutdown("terminating"), True, OutcomeUnknown),
        (psycopg.errors.QueryCanceled("statement timeout"), True, StoreUnavailable),
        (psycopg.errors.ReadOnlySqlTransaction("read-only"), True, StoreUnavailable),
        (psycopg.errors.DiskFull("no space left"), True, StoreUnavailable),
        (psycopg.errors.TooManyConnections("sorry"), False, StoreUnavailable),
    ],
)
def test_errors_say_whether_something_may_have_been_written(
    error: psycopg.Error, committing: bool, expected: type[Exception]
) -> None:
    assert type(translate(error, committing=committing)) is expected


async def test_a_group_wakes_the_loop_once(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wakings: list[object] = []
    wake = loop.call_soon_threadsafe

    def noted(callback: Callable[..., object], *given: object) -> asyncio.Handle:
        wakings.append(callback)
        return wake(callback, *given)

    def double(session: Session, items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]

    blocker = asyncio.ensure_future(lines.submit(lambda session: session.rows(b"SELECT pg_sleep(0.2)")))
    await asyncio.sleep(0)
    calls = [asyncio.ensure_future(lines.submit_bulk(double, [n])) for n in range(20)]
    monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
    await blocker
    assert await asyncio.gather(*calls) == [[2 * n] for n in range(20)]
    assert len(wakings) == 2, "of the blocker, and of all the others"
