"""The proxy of the fault tests does what its methods say."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ...servers.proxy import Proxy

PATIENCE_S = 10


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends everything back; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_S)
        for connection in open_ones:
            connection.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with echo() as port, Proxy(port) as it:
        yield it


@contextmanager
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S) as connection:
        yield connection


def exchange(connection: socket.socket, data: bytes = b"hello") -> bytes:
    connection.sendall(data)
    return connection.recv(4096)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return not connection.recv(4096)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)


def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    with client(proxy) as one:
        assert exchange(one) == b"hello"
        assert proxy.accepted == proxy.open_links == 1


def test_a_stall_delays_and_loses_nothing(proxy: Proxy) -> None:
    with client(proxy) as one:
        assert exchange(one) == b"hello"
        proxy.stall()
        one.sendall(b"later")
        assert is_silent(one)
        proxy.heal()
        assert one.recv(4096) == b"later"


def test_a_half_open_connection_stays_open_and_loses_all(proxy: Proxy) -> None:
    with client(proxy) as one, client(proxy) as unharmed:
        assert exchange(one) == b"hello"
        assert exchange(unharmed) == b"hello"
        proxy.swallow()
        one.sendall(b"lost")
        assert is_silent(one)
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            one.recv(4096)
        assert exchange(unharmed) == b"hello", "it lost no byte"


def test_a_muted_server_hears_and_is_not_heard(proxy: Proxy) -> None:
    with client(proxy) as one:
        proxy.mute()
        one.sendall(b"hello")
        assert is_silent(one)


def test_a_cut_closes_and_refuses_until_it_heals(proxy: Proxy) -> None:
    with client(proxy) as one:
        assert exchange(one) == b"hello"
        proxy.cut()
        assert one.recv(4096) == b""
    with pytest.raises(ConnectionResetError), client(proxy) as refused:
        exchange(refused)
    proxy.heal()
    with client(proxy) as again:
        assert exchange(again) == b"hello"


def test_a_reset_is_seen_as_one(proxy: Proxy) -> None:
    with client(proxy) as one:
        assert exchange(one) == b"hello"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            one.recv(4096)
    with client(proxy) as again:
        assert exchange(again) == b"hello"


def test_a_connection_ends_after_so_many_bytes(proxy: Proxy) -> None:
    with client(proxy) as one:
        assert exchange(one) == b"hello"
        proxy.limit(6)
        assert exchange(one) == b"hello"
        with pytest.raises(ConnectionResetError):
            exchange(one)


def test_the_answer_to_one_request_is_lost(proxy: Proxy) -> None:
    with client(proxy) as one, client(proxy) as other:
        proxy.lose_answer_to(b"COMMIT")
        assert exchange(other) == b"hello"
        with pytest.raises(ConnectionResetError):
            exchange(one, b"and COMMIT")
        assert proxy.wait_until_lost(PATIENCE_S)
        assert exchange(other, b"COMMIT") == b"COMMIT", "only one is lost"


def test_a_prepared_statement_is_known_by_its_text(proxy: Proxy) -> None:
    with client(proxy) as one, client(proxy) as other:
        for connection in (one, other):
            exchange(connection, b"P\0\0\0\x14_pg3_0\0BEGIN\0\0\0")
            exchange(connection, b"P\0\0\0\x15_pg3_1\0COMMIT\0\0\0")
        proxy.lose_answer_to(b"COMMIT")
        assert exchange(one, b"B\0\0\0\x14\0_pg3_0\0") == b"B\0\0\0\x14\0_pg3_0\0"
        with pytest.raises(ConnectionResetError):
            exchange(other, b"B\0\0\0\x14\0_pg3_1\0")
        assert proxy.wait_until_lost(PATIENCE_S)


def test_latency_keeps_the_order(proxy: Proxy) -> None:
    with client(proxy) as one:
        proxy.latency_s = 0.02
        one.sendall(b"a")
        assert one.recv(1) == b"a"
        one.sendall(b"b")
        proxy.latency_s = 0
        one.sendall(b"c")
        assert one.recv(1) + one.recv(1) == b"bc"
