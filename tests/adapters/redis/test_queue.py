"""The queue on one Redis, where that is emptied, killed, stopped, full, or not what it should be."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tickwheel.adapters.redis import queue as queue_module
from tickwheel.adapters.redis.queue import RedisQueue, open_redis_queue
from tickwheel.adapters.system import SystemClock
from tickwheel.ports.queue import PACK_COUNT, Delivery, Topic

from ...conformance.queue.hints import ALL, HOOKS, MAIL, delivered, fences, hints, taken
from ...servers.redis import RedisServer, shared_redis, shared_redis_cluster

PATIENCE_S = 20
BOUND_S = 1.0
SLACK_S = 1.5
"""What a busy machine may add."""
VERBS: dict[str, Callable[[RedisQueue], Awaitable[object]]] = {
    "publish": lambda queue: queue.publish(HOOKS, hints(1)),
    "take": lambda queue: queue.take([HOOKS, MAIL], 1),
    "wait": lambda queue: queue.wait([HOOKS], 10_000),
    "depth": lambda queue: queue.depth([HOOKS]),
    "ack": lambda queue: queue.ack(["1-1 1|2|webhooks"]),
    "nack": lambda queue: queue.nack(["1-1 1|2|webhooks"]),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server that these tests may break."""
    with RedisServer() as server:
        yield server


def opened(url: str, cluster: str = "mine", visible_again_ms: int = 60_000) -> RedisQueue:
    return open_redis_queue(url, SystemClock(), cluster=cluster, visible_again_ms=visible_again_ms)


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[RedisQueue]:
    server.ask("FLUSHALL")
    async with aclosing(opened(server.url)) as queue:
        yield queue


async def published(queue: RedisQueue, topic: Topic, *numbers: int) -> None:
    """Until it works; nothing but `ConnectionError` may be raised meanwhile."""
    await until_it_works(lambda: queue.publish(topic, hints(*numbers)))


async def until_it_works(call: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await call()
            return
        except ConnectionError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_a_flush_empties_it_and_it_goes_on(server: RedisServer, queue: RedisQueue) -> None:
    await queue.publish(HOOKS, hints(1))
    held = (await delivered(queue)).receipt
    await queue.publish(HOOKS, hints(2))
    server.ask("FLUSHALL")
    server.ask("SCRIPT", "FLUSH")
    assert await taken(queue) == []
    assert await queue.depth([HOOKS]) == [0]
    await queue.ack([held])
    await queue.nack([held])
    await queue.publish(HOOKS, hints(3))
    server.ask("SCRIPT", "FLUSH")
    assert await taken(queue) == [3]
    await queue.nack([held])
    assert await taken(queue) == []


async def test_a_lost_group_is_made_anew(server: RedisServer, queue: RedisQueue) -> None:
    await queue.publish(HOOKS, hints(1))
    held = (await delivered(queue)).receipt
    server.ask("XGROUP", "DESTROY", queue._key(HOOKS), "workers")
    await queue.ack([held])
    await queue.nack([held])
    assert await queue.depth([HOOKS]) == [1]
    assert await taken(queue) == [1]


async def test_who_waits_is_woken_after_a_flush(server: RedisServer, queue: RedisQueue) -> None:
    async with aclosing(opened(server.url)) as other:
        waiting = asyncio.ensure_future(other.wait([HOOKS], 30_000))
        await asyncio.sleep(0.05)
        server.ask("FLUSHALL")
        await queue.publish(HOOKS, hints(1))
        done, _ = await asyncio.wait({waiting}, timeout=PATIENCE_S)
        assert done
        assert await taken(other) == [1]


async def test_publications_wake_at_once(server: RedisServer, queue: RedisQueue) -> None:
    """Not only by the look that is taken each second."""
    async with aclosing(opened(server.url)) as other:
        lags = []
        for _ in range(5):
            waiting = asyncio.ensure_future(other.wait([HOOKS], 30_000))
            await asyncio.sleep(0.05)
            begun = time.monotonic()
            await queue.publish(HOOKS, hints(1))
            await waiting
            lags.append(time.monotonic() - begun)
            await taken(other)
    assert min(lags) < 0.2


async def test_a_killed_server_costs_errors_until_it_is_back(server: RedisServer, queue: RedisQueue) -> None:
    await queue.publish(HOOKS, hints(1))
    held = (await delivered(queue)).receipt
    waiting = asyncio.ensure_future(queue.wait([MAIL], 30_000))
    await asyncio.sleep(0.05)
    server.kill()
    [result] = await asyncio.gather(waiting, return_exceptions=True)
    assert result is None or isinstance(result, ConnectionError)
    for verb in VERBS.values():
        with pytest.raises(ConnectionError):
            await verb(queue)
    server.start()
    await published(queue, HOOKS, 2)
    assert await taken(queue) == [2]
    await queue.ack([held])
    await queue.wait([HOOKS], 10)


@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize("connected", [True, False])
async def test_a_stopped_server_holds_nobody_up(
    server: RedisServer, queue: RedisQueue, verb: str, connected: bool
) -> None:
    if connected:
        await VERBS["depth"](queue)
        await queue.wait([HOOKS], 1)
    server.freeze()
    try:
        begun = time.monotonic()
        with pytest.raises(ConnectionError):
            await VERBS[verb](queue)
        assert time.monotonic() - begun < BOUND_S + SLACK_S
    finally:
        server.thaw()
    await published(queue, MAIL, 2)
    assert await taken(queue, MAIL) == [2]


async def test_callers_of_the_same_moment_fail_together(server: RedisServer, queue: RedisQueue) -> None:
    await queue.depth([HOOKS])
    server.freeze()
    try:
        begun = time.monotonic()
        results = await asyncio.gather(*(queue.depth([HOOKS]) for _ in range(50)), return_exceptions=True)
        assert all(isinstance(result, ConnectionError) for result in results)
        assert time.monotonic() - begun < BOUND_S + SLACK_S
    finally:
        server.thaw()
    await published(queue, HOOKS, 1)


async def test_a_connection_that_died_while_idle_is_replaced_unnoticed(
    server: RedisServer, queue: RedisQueue
) -> None:
    await queue.publish(HOOKS, hints(1))
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await asyncio.sleep(0.05)
    assert await taken(queue) == [1]


async def test_a_full_server_takes_nothing_in_and_lets_everything_out(
    server: RedisServer, queue: RedisQueue
) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    await queue.publish(HOOKS, hints(3))
    await queue.publish(MAIL, hints(9))
    held = await delivered(queue, limit=2)
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    try:
        with pytest.raises(ConnectionError, match="maxmemory"):
            await queue.publish(HOOKS, hints(4))
        with pytest.raises(ConnectionError, match="maxmemory"):
            await queue.nack([held.receipt])
        assert await taken(queue) == [3]
        assert await taken(queue, MAIL) == [9], "nothing must be made before the first take"
        await queue.ack([held.receipt])
    finally:
        server.ask("CONFIG", "SET", "maxmemory", "0")
    await queue.publish(HOOKS, hints(5))
    assert await taken(queue) == [5]


async def test_a_stream_that_nobody_takes_from_has_an_end(
    server: RedisServer, queue: RedisQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "MOST_PACKS", 100)
    for turn in range(10):
        await queue.publish(HOOKS, hints(*range(turn, turn + 50 * PACK_COUNT)))
    assert 100 <= server.ask("XLEN", queue._key(HOOKS)) < 150
    assert 0 < server.ask("PTTL", queue._key(HOOKS)) <= queue_module.LIFE_MS


async def test_what_was_trimmed_while_it_was_out_is_forgotten(server: RedisServer, queue: RedisQueue) -> None:
    async with aclosing(opened(server.url, visible_again_ms=1)) as hasty:
        await queue.publish(HOOKS, hints(1))
        receipt = (await delivered(hasty)).receipt
        server.ask("XTRIM", queue._key(HOOKS), "MAXLEN", 0)
        await asyncio.sleep(0.02)
        assert await taken(hasty) == []
        await queue.ack([receipt])
        assert server.ask("XPENDING", queue._key(HOOKS), "workers")[0] == 0


async def test_depth_of_many_packs_is_about_right(queue: RedisQueue) -> None:
    await queue.publish(HOOKS, hints(*range(200 * PACK_COUNT)))
    assert await queue.depth([HOOKS]) == [200 * PACK_COUNT]
    await queue.publish(MAIL, hints(1))
    assert await queue.depth([MAIL, HOOKS]) == [1, 200 * PACK_COUNT]


async def test_clusters_share_a_server_without_meeting(server: RedisServer, queue: RedisQueue) -> None:
    async with aclosing(opened(server.url, cluster="theirs")) as other:
        await queue.publish(HOOKS, hints(1))
        await other.publish(HOOKS, hints(2))
        assert await taken(other) == [2]
        assert await taken(queue) == [1]


async def test_a_key_of_somebody_else_is_an_error_and_not_a_crash(server: RedisServer, queue: RedisQueue) -> None:
    server.ask("SET", queue._key(HOOKS), "theirs")
    for verb in ("publish", "take", "depth", "wait"):
        with pytest.raises(ConnectionError, match="Redis refuses"):
            await VERBS[verb](queue)
    assert await taken(queue, MAIL) == []


async def test_what_does_not_speak_the_protocol_is_unreachable() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    strange = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = strange.sockets[0].getsockname()[1]
    try:
        async with aclosing(opened(f"redis://127.0.0.1:{port}")) as queue:
            for verb in VERBS.values():
                with pytest.raises(ConnectionError):
                    await verb(queue)
    finally:
        strange.close()
        await strange.wait_closed()


async def test_passwords_are_used_and_never_told() -> None:
    with RedisServer("--requirepass", "right-one", client={"password": "right-one"}) as server:
        place = server.url.removeprefix("redis://")
        async with aclosing(opened(f"redis://:right-one@{place}")) as queue:
            await queue.publish(HOOKS, hints(1))
            assert await taken(queue) == [1]
        for wrong in (f"redis://:wr0ng-one@{place}", f"redis://somebody:wr0ng-one@{place}", server.url):
            async with aclosing(opened(wrong)) as queue:
                with pytest.raises(ConnectionError) as caught:
                    await queue.depth([HOOKS])
                shown = str(caught.value) + repr(caught.value.__cause__) + repr(queue._servers)
                assert "wr0ng" not in shown


async def test_tls(tmp_path: Path) -> None:
    """The server shows a certificate that the given CA signed, and asks for one of ours."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=redis"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *files], check=True, capture_output=True)
    ours = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    options = ["--port", "0", "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
    with RedisServer(*options, "--tls-ca-cert-file", str(certificate), tls=True, client=ours) as server:
        mine = f"{server.url}?ca={certificate}&cert={certificate}&key={key}"
        async with aclosing(opened(mine)) as queue:
            await queue.publish(HOOKS, hints(*range(300)))
            assert await taken(queue) == list(range(300))
            server.freeze()
            try:
                with pytest.raises(ConnectionError):
                    await queue.depth([HOOKS])
            finally:
                server.thaw()
            await published(queue, HOOKS, 1)
        for refused in (server.url, f"{server.url}?ca={certificate}", server.url.replace("rediss", "redis")):
            async with aclosing(opened(refused)) as queue:
                with pytest.raises(ConnectionError):
                    await queue.depth([HOOKS])


async def test_many_callers_share_one_connection(server: RedisServer, queue: RedisQueue) -> None:
    topics = [Topic(HOOKS.lane, f"handler:{n}") for n in range(50)]
    await asyncio.gather(*(queue.publish(topic, hints(n)) for n, topic in enumerate(topics)))
    results = await asyncio.gather(*(taken(queue, topic) for topic in topics))
    assert results == [[n] for n in range(50)]
    clients = server.ask("CLIENT", "LIST", "TYPE", "normal").decode()
    assert clients.count("name=tickwheel ") == 1


async def test_callers_that_give_up_disturb_nobody(queue: RedisQueue) -> None:
    await queue.publish(HOOKS, hints(*range(10)))
    for _ in range(30):
        calls = [asyncio.ensure_future(queue.depth([HOOKS])) for _ in range(10)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert results[1::2] == [[10]] * 5
    [delivery] = await queue.take([HOOKS], ALL)
    assert fences(delivery.rows) == list(range(10))


async def test_what_was_taken_before_a_failure_is_given(
    queue: RedisQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.publish(HOOKS, hints(1))
    await queue.publish(MAIL, hints(2))
    take = queue._take

    async def failing_for_mail(topic: Topic, room: int, *, larger: bool) -> Delivery | None:
        if topic == MAIL:
            raise ConnectionError("gone")
        return await take(topic, room, larger=larger)

    monkeypatch.setattr(queue, "_take", failing_for_mail)
    assert [delivery.topic for delivery in await queue.take([HOOKS, MAIL], ALL)] == [HOOKS]
    with pytest.raises(ConnectionError):
        await queue.take([HOOKS, MAIL], ALL)


async def test_many_who_begin_to_wait_at_once_are_all_woken(server: RedisServer, queue: RedisQueue) -> None:
    async with aclosing(opened(server.url)) as other:
        await until_it_works(lambda: other.depth([HOOKS]))  # to connect may take long on a busy machine
        for _ in range(3):
            waiting = [asyncio.ensure_future(other.wait([HOOKS, MAIL], 30_000)) for _ in range(50)]
            await asyncio.sleep(0.05)
            assert not any(wait.done() for wait in waiting)
            await queue.publish(MAIL, hints(1))
            done, left = await asyncio.wait(waiting, timeout=PATIENCE_S)
            assert not left
            for wait in done:
                wait.result()
            assert await taken(other, MAIL) == [1]
            server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            await asyncio.sleep(0.05)  # or who waits next is woken by that


async def test_a_server_of_a_cluster_is_told_apart() -> None:
    cluster = shared_redis_cluster()
    topics = [Topic(HOOKS.lane, f"handler:{n}") for n in range(8)]
    async with aclosing(opened(cluster.servers[0].url)) as queue:
        with pytest.raises(ConnectionError, match=r"redis\+cluster://"):
            await queue.depth(topics)
    async with aclosing(opened(shared_redis().url.replace("redis:", "redis+cluster:"))) as queue:
        with pytest.raises(ConnectionError, match="cluster support disabled"):
            await queue.depth(topics)


def test_the_driver_is_loaded_only_where_it_is_asked_for() -> None:
    modules = "tickwheel, tickwheel.wiring.queues, tickwheel.interfaces.cli.main"
    code = f"import sys, {modules}; print('redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
