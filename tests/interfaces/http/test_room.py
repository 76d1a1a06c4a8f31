"""How many connections are kept, who has to go, and that slow ones can't keep others out."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from tickwheel.interfaces.http import room as room_module
from tickwheel.interfaces.http.room import SPARE_COUNT, Room, RoomLimits
from tickwheel.interfaces.http.server import HttpServer

from .sockets import GET, HEAD, Noting, connect, read_to_end, serving, statuses

HEALTH = GET.replace(b"/first", b"/healthz")


class Visitor:
    """A connection of a test."""

    def __init__(self, idle_since_s: float | None = None) -> None:
        self.idle_s = idle_since_s
        self.left = self.turned_away = False

    def idle_since_s(self) -> float | None:
        return self.idle_s

    def leave(self) -> None:
        self.left = True

    def turn_away(self) -> None:
        self.turned_away = True


def filled(limits: RoomLimits, visitors: list[Visitor]) -> Room:
    room = Room(limits)
    for number, visitor in enumerate(visitors):
        assert room.admit(visitor, f"10.0.0.{number}", 0)
    return room


def test_the_idlest_make_room_and_the_busy_stay() -> None:
    busy, young, old, oldest = Visitor(), Visitor(9.5), Visitor(2), Visitor(1)
    room = filled(RoomLimits(total_count=4), [busy, young, old, oldest])
    assert room.admit(Visitor(), "10.0.1.1", 10)
    assert [one.left for one in (busy, young, old, oldest)] == [False, False, False, True]
    assert room.guest_count == 4


def test_who_finds_no_room_gets_a_spare_place_and_the_log_says_so_once() -> None:
    room = filled(RoomLimits(total_count=2), [Visitor(), Visitor()])
    late = [Visitor() for _ in range(SPARE_COUNT + 1)]
    with capture_logs() as logs:
        assert not any(room.admit(one, "10.0.1.1", 10) for one in late)
    assert (room.guest_count, room.spare_count) == (2, SPARE_COUNT)
    assert [one.turned_away for one in late] == [True] + [False] * SPARE_COUNT
    assert [entry["event"] for entry in logs] == ["http.no_room"]
    for one in late:
        room.let_go(one)
    assert room.spare_count == 0


def test_places_that_were_given_up_are_free_again() -> None:
    first = Visitor()
    room = filled(RoomLimits(total_count=1, address_count=1), [first])
    for _ in range(3):
        room.let_go(first)
    assert room.admit(Visitor(), "10.0.0.0", 1)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_one_client_is_an_address_or_a_network_of_ipv6(first: str, second: str, same: bool) -> None:
    room = Room(RoomLimits(address_count=1))
    assert room.admit(Visitor(), first, 0)
    assert room.admit(Visitor(), second, 0) is not same


def test_the_room_is_looked_through_at_most_so_often() -> None:
    class Counting(Visitor):
        asked_count = 0

        def idle_since_s(self) -> float | None:
            Counting.asked_count += 1
            return None

    room = filled(RoomLimits(total_count=10), [Counting() for _ in range(10)])
    for number in range(100):
        room.admit(Visitor(), f"10.1.0.{number}", 5 + number / 1000)
    assert Counting.asked_count == 10


def test_tidying_keeps_some_places_free() -> None:
    visitors = [Visitor(number) for number in range(20)]
    room = filled(RoomLimits(total_count=20), visitors)
    room.tidy(100)
    assert [one.left for one in visitors] == [True] * 2 + [False] * 18


async def until(server: HttpServer, guest_count: int) -> None:
    while server.room.guest_count != guest_count:
        await asyncio.sleep(0.01)


async def ask(server: HttpServer, data: bytes = GET) -> list[int]:
    """The answer on a connection that is closed then."""
    reader, writer = await connect(server)
    writer.write(data)
    writer.write_eof()
    received = await read_to_end(reader)
    writer.close()
    return statuses(received)


async def test_idle_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "IDLE_S", 0)
    monkeypatch.setattr(room_module, "LOOK_S", 0)
    async with serving(Noting(), limits=RoomLimits(total_count=4)) as server:
        idle = [await connect(server) for _ in range(4)]
        await until(server, 4)
        for _ in range(3):
            assert await ask(server) == [200]
        assert await read_to_end(idle[0][0]) == b""
        for _, writer in idle:
            writer.close()


async def test_a_full_server_turns_away_with_503_and_answers_health_checks() -> None:
    async with serving(Noting(), limits=RoomLimits(total_count=2)) as server:
        slow = [await connect(server) for _ in range(2)]
        for _, writer in slow:
            writer.write(HEAD)
        await until(server, 2)
        while any(one.idle_since_s() is not None for one in server.room._guests):
            await asyncio.sleep(0.01)
        assert await ask(server) == [503]
        assert await ask(server, HEALTH) == [200]
        assert await ask(server, HEAD + b"Content-Length: 100\r\n\r\n{") == [503]
        for _, writer in slow:
            writer.close()
        await until(server, 0)
        assert await ask(server) == [200]


async def test_one_address_can_not_take_every_place() -> None:
    async with serving(Noting(), limits=RoomLimits(total_count=100, address_count=3)) as server:
        many = [await connect(server) for _ in range(3)]
        await until(server, 3)
        assert await ask(server) == [503]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.9", 0))
        writer.write(GET)
        assert statuses(await reader.readuntil(b"\r\n\r\n")) == [200]
        for _, one in [*many, (reader, writer)]:
            one.close()


async def drip(server: HttpServer, data: bytes) -> tuple[list[int], int]:
    """Send byte by byte, until the server has had enough: what it answered, and how many bytes it took."""
    reader, writer = await connect(server)
    answer: asyncio.Task[Any] = asyncio.ensure_future(read_to_end(reader))
    sent = 0
    with suppress(ConnectionError):
        for sent in range(len(data)):
            if answer.done():
                break
            writer.write(data[sent : sent + 1])
            await writer.drain()
            await asyncio.wait((answer,), timeout=0.02)
    received = await answer
    writer.close()
    return statuses(received), sent


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"X-Slow: " + b"a" * 10_000,
        HEAD + b"Content-Length: 10000\r\n\r\n" + b" " * 10_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 2_000,
    ],
    ids=["head", "body", "chunks"],
)
async def test_who_drips_is_cut_off_and_others_are_served_meanwhile(data: bytes) -> None:
    async with serving(Noting(), request_limit_s=0.2) as server:
        dripping = [asyncio.ensure_future(drip(server, data)) for _ in range(20)]
        while not all(one.done() for one in dripping):
            assert await ask(server) == [200]
            await asyncio.sleep(0.05)
        for one in dripping:
            answered, sent = one.result()
            assert answered in ([408], []), "a reset may come before the answer is read"
            assert sent < len(data) - 1
        await until(server, 0)
