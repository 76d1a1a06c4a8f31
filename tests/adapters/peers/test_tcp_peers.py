"""Real sockets on loopback: what proves that a process has ended, and what proves nothing."""

import asyncio
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.peers.address import own_network, print_address
from tickwheel.adapters.peers.lines import greeting
from tickwheel.adapters.peers.link import NUDGES_PER_SECOND
from tickwheel.adapters.peers.listener import CONNECTION_LIMIT
from tickwheel.adapters.system import SystemClock

PATIENCE_S = 20
LISTENER = """
import asyncio, sys
from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.system import SystemClock

async def main():
    print(await TcpPeers(host="127.0.0.1", clock=SystemClock()).open("other-1", print), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def wait_until(predicate: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {why}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(process: str, nudges: list[str] | None = None) -> AsyncIterator[tuple[TcpPeers, str]]:
    peers = TcpPeers(host="127.0.0.1", clock=SystemClock())
    noted = [] if nudges is None else nudges
    try:
        yield peers, await peers.open(process, lambda: noted.append(process))
    finally:
        await peers.aclose()


def is_linked(peers: TcpPeers) -> bool:
    assert peers._listener is not None
    return bool(peers._listener.connections)


async def test_a_listening_process_is_not_gone() -> None:
    async with opened("a") as (a, _), opened("b") as (b, address):
        a.watch({"b": address})
        await wait_until(lambda: is_linked(b), "a links to b")
        assert not a.is_gone("b")
        assert not a.is_gone("never heard of")


async def test_a_killed_process_is_gone_at_once_and_a_stopped_one_is_not() -> None:
    """SIGSTOP: the kernel accepts for it, but no greeting comes; it may wake up."""
    child = subprocess.Popen([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        address = (await asyncio.to_thread(child.stdout.readline)).strip()
        async with opened("a") as (a, _):
            a.watch({"other-1": address})
            await wait_until(lambda: a._links, "it is watched")
            [(link, _)] = a._links.values()
            tries = count_visits(a)
            child.send_signal(signal.SIGSTOP)
            a.watch({})
            a.watch({"other-1": address})
            await wait_until(lambda: tries() >= 2, "two tries at the stopped process")
            assert not a.is_gone("other-1")
            child.kill()
            await wait_until(lambda: a.is_gone("other-1"), "its port refuses")
            assert not link.is_gone
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def count_visits(peers: TcpPeers) -> Callable[[], int]:
    """How often its links went to sleep before the next try."""
    seen = 0
    sleep_ms = peers._clock.sleep_ms

    async def counted(length_ms: int) -> None:
        nonlocal seen
        seen += 1
        await sleep_ms(length_ms)

    peers._clock.sleep_ms = counted  # type: ignore[method-assign]  # the test looks on
    return lambda: seen


async def test_another_process_at_the_address_proves_that_the_first_is_gone() -> None:
    async with opened("a") as (a, _), opened("newcomer") as (_, address):
        a.watch({"former": address})
        await wait_until(lambda: a.is_gone("former"), "somebody else answers there")


async def test_what_is_gone_may_turn_out_to_be_there() -> None:
    """A process that was refused once, but answers now under its own name, lives."""
    port = free_port()
    async with AsyncExitStack() as stack:
        a, _ = await stack.enter_async_context(opened("a"))
        a.watch({"b": print_address("127.0.0.1", port, own_network())})
        await wait_until(lambda: a.is_gone("b"), "nobody listens yet")
        b = TcpPeers(host="127.0.0.1", port=port, clock=SystemClock())
        stack.push_async_callback(b.aclose)
        await b.open("b", lambda: None)
        await wait_until(lambda: not a.is_gone("b"), "it listens")


def free_port() -> int:
    """Below the range that clients are given ports from, so that it is still free in a moment."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(15_000, 32_000))) as server:
            return int(server.getsockname()[1])


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"x" * 100_000, b"\xff\n", None])
async def test_nonsense_proves_nothing(said: bytes | None) -> None:
    """Also not a port that says nothing at all (None)."""
    visits = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        if said is not None:
            writer.write(said)
            writer.close()
        else:
            await reader.read()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        async with opened("a") as (a, _):
            a.watch({"b": print_address("127.0.0.1", server.sockets[0].getsockname()[1], own_network())})
            await wait_until(lambda: visits >= 2, "it is tried again")
            assert not a.is_gone("b")
    finally:
        server.close()
        await wait_until(lambda: len(asyncio.all_tasks()) == 1, "the answers have ended")


async def test_a_nudge_reaches_everybody_who_is_linked() -> None:
    nudges: list[str] = []
    async with opened("a", nudges) as (a, _), opened("b", nudges) as (b, _), opened("c") as (c, address):
        a.watch({"c": address})
        b.watch({"c": address})
        await wait_until(lambda: len(c._listener.connections) == 2, "both are linked")  # type: ignore[union-attr]  # it is open
        c.nudge()
        await wait_until(lambda: sorted(nudges) == ["a", "b"], "both are nudged")


async def test_a_flood_of_nudges_is_not_heard() -> None:
    nudges: list[str] = []

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting("b") + b"nudge\n" * 20_000)
        await writer.drain()
        writer.write(b"x" * 1_000)
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    try:
        async with opened("a", nudges) as (a, _):
            visits = count_visits(a)
            a.watch({"b": print_address("127.0.0.1", server.sockets[0].getsockname()[1], own_network())})
            await wait_until(lambda: visits() >= 1, "all of it was read")
            assert 0 < len(nudges) <= 2 * NUDGES_PER_SECOND
    finally:
        server.close()
        await wait_until(lambda: len(asyncio.all_tasks()) == 1, "the answers have ended")


async def test_who_talks_to_the_port_is_cut_off() -> None:
    async with opened("b") as (b, address):
        host, _, port = address.partition("#")[0].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.readline() == greeting("b")
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        await wait_until(lambda: not is_linked(b), "the connection is forgotten")


async def test_strangers_that_take_every_place_prove_nothing() -> None:
    async with opened("a") as (a, _), opened("b") as (b, address):
        host, _, port = address.partition("#")[0].rpartition(":")
        strangers = [await asyncio.open_connection(host, int(port)) for _ in range(CONNECTION_LIMIT)]
        for reader, _ in strangers:
            assert await reader.readline() == greeting("b")
        a.watch({"b": address})
        (link,) = (link for link, _ in a._links.values())
        await wait_until(lambda: link._writer is not None, "a has tried")
        await wait_until(lambda: link._writer is None, "and found no place")
        assert not a.is_gone("b")
        assert b._listener is not None
        assert len(b._listener.connections) == CONNECTION_LIMIT
        for _, writer in strangers:
            writer.close()
        await wait_until(lambda: link._writer is not None and is_linked(b), "there is one again")


async def test_who_is_no_longer_watched_is_let_go() -> None:
    async with opened("a") as (a, _), opened("b") as (b, address):
        a.watch({"b": address})
        await wait_until(lambda: is_linked(b), "a links to b")
        a.watch({})
        await wait_until(lambda: not is_linked(b), "a lets go")
        assert not a.is_gone("b")
