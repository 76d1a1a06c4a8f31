"""What a worker asks a server for, and what it makes of refusals."""

import asyncio
from typing import Any, TypeVar

import msgspec
import pytest

from tickwheel.adapters.pull import HttpCalls, HttpSource, Refused, Unauthorized
from tickwheel.adapters.pull.source import HOLDING_LIMIT
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.ids import make_job_id, run_id_text
from tickwheel.domain.lanes import LaneSlots
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.ports.events import Event, LoopFailed
from tickwheel.ports.remote_work import Assignment, Ended
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.room import Room
from tickwheel.testing.virtual_clock import VirtualClock

T = TypeVar("T")
NOTE = WorkerNote(name="w", handlers=("work",), slots=100)


def run(number: int) -> dict[str, Any]:
    job_id = make_job_id(created_ms=1_000, shard=0, due_ms=None, random48=number.to_bytes(6))
    return {
        "run_id": run_id_text(job_id, 2_000),
        "fencing_token": number,
        "attempt": 1,
        "max_attempts": 4,
        "lane": "DEFAULT",
        "tenant_id": "default",
        "timeout_ms": 30_000,
        "handler": "work",
    }


class Server:
    """Implements `adapters.pull.calls.Calls`: gives `runs`, and refuses reports with tokens in `refused`."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.asked: list[Any] = []
        self.reported: list[int] = []
        self.refused: set[int] = set()

    def look_elsewhere(self) -> None:
        return

    async def post(self, path: str, body: Any, answer: type[T], *, wait_ms: int = 0) -> T:
        self.asked.append(msgspec.json.decode(msgspec.json.encode(body)))
        if path.endswith("poll"):
            runs, self.runs = self.runs, []
            said: dict[str, Any] = {"worker_id": "w-1", "session_seconds": 15, "lease_seconds": 30, "runs": runs}
            return msgspec.convert(said, answer)
        tokens = [one["fencing_token"] for one in self.asked[-1]["runs"]]
        if self.refused & set(tokens):
            raise Refused("422")
        self.reported += tokens
        ends = [{"run_id": one["run_id"], "accepted": True} for one in self.asked[-1]["runs"]]
        return msgspec.convert({"runs": ends}, answer)

    async def aclose(self) -> None:
        return


class Heard(list[Event]):
    def emit(self, event: Event) -> None:
        self.append(event)


async def source(server: Server, heard: Heard | None = None) -> HttpSource:
    made = HttpSource(
        server, handlers=["work"], webhooks=False, clock=VirtualClock(), events=Heard() if heard is None else heard
    )
    await made.enlist(NOTE)
    return made


async def take(made: HttpSource, server: Server, count: int) -> list[Assignment]:
    server.runs = [run(len(server.asked) * 100_000 + number) for number in range(count)]
    return list((await made.take(Room(LaneSlots(100), 0), 0, NOTE)).assignments)


async def test_a_worker_that_holds_more_than_a_poll_may_tell_tells_nothing_and_takes_nothing() -> None:
    server = Server()
    made = await source(server)
    await take(made, server, HOLDING_LIMIT + 1)
    await take(made, server, 0)
    assert server.asked[-1]["slots"]["free"] == 0
    assert server.asked[-1]["holding"] is None


async def test_a_run_is_held_until_its_end_is_confirmed() -> None:
    server = Server()
    made = await source(server)
    one, two = await take(made, server, 2)
    made.report([Ended(one, OK, 1, 2)])
    await take(made, server, 0)
    assert len(server.asked[-1]["holding"]) == 2, "the end was not sent yet"
    made.forget([two])
    await take(made, server, 0)
    assert len(server.asked[-1]["holding"]) == 1


async def test_of_reports_that_a_server_refuses_only_the_wrong_one_is_given_up() -> None:
    server, heard = Server(), Heard()
    made = await source(server, heard)
    given = await take(made, server, 9)
    server.refused = {given[4].fence}
    made.report([Ended(one, OK, 1, 2) for one in given])
    made.report([Ended(given[0], Outcome(outcome_class=OutcomeClass.PERMANENT, error="x"), 1, 2)])
    sending = asyncio.ensure_future(made.run())
    await made.flushed()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    accepted = [one.fence for one in given if one is not given[4]]
    assert sorted(server.reported) == sorted([*accepted, given[0].fence])
    assert [event.error for event in heard if isinstance(event, LoopFailed)] == ["422"]
    assert made.pending == 0


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://a", "http://", "http://a?b=c", "http://me@a"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        HttpCalls([url], token=None)


def test_a_wrong_token_is_an_error_of_its_own() -> None:
    assert Unauthorized("x").code == "unauthorized"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b'{"detail":"The token is not known.","errors":[]}', "answered 401: The token is not known."),
        (
            b'{"detail":"Bad.","errors":[{"field":"x"}]}',
            'answered 401: {"detail":"Bad.","errors":[{"field":"x"}]}',
        ),
        (b"<h1>No</h1>", "answered 401: <h1>No</h1>"),
    ],
)
async def test_a_refusal_is_told_in_the_words_of_the_server(answer: bytes, shown: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    calls = HttpCalls([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"], token=None)
    try:
        with pytest.raises(Unauthorized) as refused:
            await calls.post("/v1/workers/poll", {}, dict)
    finally:
        await calls.aclose()
        server.close()
    assert str(refused.value).endswith(shown)


async def test_requests_that_fail_together_all_come_to_the_server_that_lives() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    came: list[asyncio.StreamWriter] = []
    all_came = asyncio.Event()

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        came.append(writer)
        if len(came) == 2:
            all_came.set()
        await all_came.wait()
        writer.close()

    servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for serve in (die, answer)]
    calls = HttpCalls([f"http://127.0.0.1:{s.sockets[0].getsockname()[1]}" for s in servers], token=None)
    try:
        posts = [calls.post("/v1/workers/poll", {}, dict) for _ in range(2)]
        assert await asyncio.wait_for(asyncio.gather(*posts), 10) == [{}, {}]
        assert len(came) == 2
    finally:
        await calls.aclose()
        for server in servers:
            server.close()


async def test_what_waits_fails_when_it_is_closed_and_no_other_server_is_asked() -> None:
    asked: list[bytes] = []
    came = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"{}"))
        came.set()
        await reader.read()
        writer.close()

    servers = [await asyncio.start_server(say_nothing, "127.0.0.1", 0) for _ in range(2)]
    calls = HttpCalls([f"http://127.0.0.1:{s.sockets[0].getsockname()[1]}" for s in servers], token=None)
    post = asyncio.ensure_future(calls.post("/v1/workers/poll", {}, dict))
    try:
        await asyncio.wait_for(came.wait(), 10)
        await calls.aclose()
        with pytest.raises(ConnectionError, match="closed"):
            await asyncio.wait_for(post, 10)
        assert len(asked) == 1
    finally:
        for server in servers:
            server.close()
