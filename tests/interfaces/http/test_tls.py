"""TLS: who is let in, how certificates are renewed, and that the bounds of connections hold there as well."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tickwheel.adapters.system import SystemClock
from tickwheel.interfaces.http import acceptor, connection
from tickwheel.interfaces.http.room import RoomLimits
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.interfaces.http.tls import Certificates, TlsFiles

from .certificates import Authority, serial_of
from .sockets import GET, HEAD, Noting, connect, read_to_end, serving, statuses

Scenario = Callable[[], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a scenario on either event loop: each has a TLS of its own."""
    factory: Any = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def on_loop(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario())  # type: ignore[arg-type]  # scenarios are coroutine functions

    return on_loop


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def certificates(cert: Path, key: Path, **more: str) -> Certificates:
    return Certificates(TlsFiles(str(cert), str(key), **more), SystemClock().now_ms)


def issued(authority: Authority) -> Certificates:
    cert, key, _ = authority.issue()
    return certificates(cert, key)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def status_of(server: HttpServer, context: ssl.SSLContext, data: bytes = GET) -> int:
    reader, writer = await connect(server, context)
    try:
        writer.write(data)
        return statuses(await reader.readuntil(b"\r\n\r\n"))[0]
    finally:
        writer.close()


def test_requests_over_tls_are_answered(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        app = Noting()
        async with serving(app, certificates=issued(authority)) as server:
            assert server.url == f"https://127.0.0.1:{server.port}"
            reader, writer = await connect(server, authority.client_context())
            for _ in range(3):
                writer.write(HEAD + b"Content-Length: 100000\r\n\r\n" + b" " * 100_000)
                assert statuses(await reader.readuntil(b"\r\n\r\nok")) == [200]
            assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
            writer.close()
        assert app.whole == ["/first"] * 3

    run(scenario)


def test_browsers_are_told_to_stay_with_tls_but_not_on_localhost(authority: Authority, run: Run) -> None:
    async def head_of(server: HttpServer, host: str) -> bytes:
        reader, writer = await asyncio.open_connection(host, server.port, ssl=authority.client_context())
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"nonsense\r\n\r\n")
        refusal = await read_to_end(reader)
        assert statuses(refusal) == [400]
        assert (b"strict-transport-security" in head) == (b"strict-transport-security" in refusal)
        writer.close()
        return head

    async def scenario() -> None:
        for host in ("127.0.0.1", "127.0.0.2"):
            server = HttpServer(Noting(), host, 0, drain_seconds=1, certificates=issued(authority))
            await server.start()
            head = await head_of(server, host)
            assert (b"strict-transport-security: max-age=31536000\r\n" in head) == (host == "127.0.0.2")
            await server.stop()
        plain = HttpServer(Noting(), "127.0.0.2", 0, drain_seconds=1)
        await plain.start()
        reader, writer = await asyncio.open_connection("127.0.0.2", plain.port)
        writer.write(GET)
        assert b"strict-transport-security" not in await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await plain.stop()

    run(scenario)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
def test_old_versions_of_tls_are_refused(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        async with serving(Noting(), certificates=issued(authority)) as server:
            old = authority.client_context()
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises(OSError):
                await connect(server, old)
            assert await status_of(server, authority.client_context()) == 200

    run(scenario)


def test_with_an_authority_for_clients_only_its_clients_are_let_in(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        cert, key, _ = authority.issue()
        ours = authority.issue("client", for_client=True)
        folder = authority.file.parent / "others"
        folder.mkdir()
        theirs = Authority(folder, "other").issue("client", for_client=True)
        app = Noting()
        async with serving(app, certificates=certificates(cert, key, client_ca=str(authority.file))) as server:
            assert await status_of(server, authority.client_context(*ours[:2])) == 200
            for stranger in (authority.client_context(), authority.client_context(*theirs[:2])):
                with pytest.raises((OSError, asyncio.IncompleteReadError)):  # TLS 1.3 says it with the first bytes
                    await status_of(server, stranger)
        assert app.begun == ["/first"]

    run(scenario)


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01", b"\0" * 1000], ids=["nothing", "half", "noise"])
def test_who_never_ends_a_handshake_is_cut_off_and_others_are_served(
    authority: Authority, run: Run, data: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_LIMIT_S", 0.2)

    async def scenario() -> None:
        app = Noting()
        async with serving(app, certificates=issued(authority)) as server:
            reader, writer = await connect(server)
            writer.write(data)
            await until(lambda: server.room.guest_count == 1)
            assert await status_of(server, authority.client_context()) == 200
            assert statuses(await read_to_end(reader)) == []
            writer.close()
            await until(lambda: server.room.guest_count == 0)
        assert app.begun == ["/first"]

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


def test_who_speaks_plain_http_is_told_to_speak_tls(
    authority: Authority, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        app = Noting()
        async with serving(app, certificates=issued(authority)) as server:
            for data in (GET, HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 5000):
                reader, writer = await connect(server)
                writer.write(data)
                answer = await read_to_end(reader)
                assert statuses(answer) == [400]
                assert b"https://" in answer.partition(b"\r\n\r\n")[2]
                writer.close()
            await until(lambda: server.room.guest_count == 0)
        assert app.begun == []

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


def test_a_stop_does_not_wait_for_handshakes(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        async with serving(Noting(), certificates=issued(authority)) as server:
            reader, writer = await connect(server)
            await until(lambda: server.room.guest_count == 1)
        assert await read_to_end(reader) == b""
        assert server.room.guest_count == 0
        writer.close()

    run(scenario)


def test_handshakes_take_places_and_give_them_up_when_they_are_needed(
    authority: Authority, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        limits = RoomLimits(total_count=4)
        async with serving(Noting(), certificates=issued(authority), limits=limits) as server:
            silent = [await connect(server) for _ in range(4)]
            await until(lambda: server.room.guest_count == 4)
            await asyncio.sleep(1.1)  # as long as somebody may be silent when it is full
            assert await status_of(server, authority.client_context()) == 200
            assert await read_to_end(silent[0][0]) == b""
            for _, writer in silent:
                writer.close()

    run(scenario)


def test_who_is_turned_away_hears_why(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        app = Noting()
        limits = RoomLimits(total_count=10, address_count=1)
        async with serving(app, certificates=issued(authority), limits=limits) as server:
            _, first = await connect(server, authority.client_context())
            reader, second = await connect(server, authority.client_context())
            second.write(GET)
            answer = await read_to_end(reader)
            assert statuses(answer) == [503]
            assert b"retry-after: " in answer
            health = GET.replace(b"/first", b"/healthz")
            assert await status_of(server, authority.client_context(), health) == 200
            first.close()
            second.close()
        assert app.begun == ["/healthz"]

    run(scenario)


@pytest.mark.parametrize(
    "data", [HEAD, HEAD + b"Content-Length: 100\r\n\r\n{", b""], ids=["head", "body", "nothing"]
)
def test_slow_requests_are_given_up(authority: Authority, run: Run, data: bytes) -> None:
    async def scenario() -> None:
        async with serving(Noting(), certificates=issued(authority), request_limit_s=0.1) as server:
            reader, writer = await connect(server, authority.client_context())
            writer.write(data)
            assert statuses(await read_to_end(reader)) == ([408] if data else [])
            writer.close()

    run(scenario)


def test_answers_that_nobody_reads_are_given_up(
    authority: Authority, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # asyncio's own TLS takes a whole answer off our hands: there it is the idle connection that is closed.
    monkeypatch.setattr(connection, "UNREAD_LIMIT_S", 0.1)
    monkeypatch.setattr("tickwheel.interfaces.http.server.KEEP_ALIVE_S", 0.2)
    monkeypatch.setattr(acceptor, "GOODBYE_LIMIT_S", 0.2)

    async def long(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"20000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * 20_000_000})

    async def scenario() -> None:
        async with serving(long, certificates=issued(authority)) as server:
            reader, writer = await connect(server, authority.client_context())
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads
            writer.write(GET)
            await until(lambda: server.room.guest_count == 1)
            await until(lambda: server.room.guest_count == 0)
            writer.transport.abort()
            del reader

    run(scenario)


def test_a_client_that_says_goodbye_leaves_no_trace(
    authority: Authority, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        app = Noting()
        async with serving(app, certificates=issued(authority)) as server:
            for data in (b"", GET, HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"):
                for rudely in (False, True):
                    _, writer = await connect(server, authority.client_context())
                    writer.write(data)
                    await writer.drain()
                    if rudely:
                        writer.transport.abort()
                    else:
                        writer.close()
            await until(lambda: server.room.guest_count == 0)
            assert await status_of(server, authority.client_context()) == 200

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


def test_a_renewed_certificate_is_for_new_connections(authority: Authority, run: Run) -> None:
    async def scenario() -> None:
        cert, key, old = authority.issue()
        found = certificates(cert, key)
        async with serving(Noting(), certificates=found) as server:
            reader, writer = await connect(server, authority.client_context())
            assert serial_of(writer) == old
            _, _, new = authority.issue()
            server.renew_certificate()
            while True:
                _, later = await connect(server, authority.client_context())
                later.close()
                if serial_of(later) == new:
                    break
            writer.write(GET)
            assert statuses(await reader.readuntil(b"\r\n\r\n")) == [200]
            writer.close()

    run(scenario)


def test_the_files_are_looked_at_from_time_to_time(
    authority: Authority, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel.interfaces.http.server.CERTIFICATE_CHECK_S", 1)

    async def scenario() -> None:
        cert, key, _ = authority.issue()
        async with serving(Noting(), certificates=certificates(cert, key)) as server:
            _, _, new = authority.issue()
            seen = 0
            while seen != new:
                _, writer = await connect(server, authority.client_context())
                seen = serial_of(writer)
                writer.close()

    run(scenario)
