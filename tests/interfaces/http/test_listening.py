"""Sockets that share an address, and an address that is shared with nobody else."""

import errno
import socket

import pytest

from tickwheel.interfaces.http.listening import bind, reserve

HOST = "127.0.0.1"


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def refused(port: int, *, shared: bool = False) -> bool:
    with pytest.raises(OSError) as caught:
        bind(HOST, port, shared=shared)
    return caught.value.errno == errno.EADDRINUSE


def test_those_who_share_a_reserved_address_listen_together_and_nobody_else_does() -> None:
    with reserve(HOST, 0) as holder:
        port = port_of(holder)
        with bind(HOST, port, shared=True), bind(HOST, port, shared=True):
            assert refused(port)
            with pytest.raises(OSError, match="Address already in use"):
                reserve(HOST, port)


def test_an_address_where_somebody_listens_is_not_shared() -> None:
    with bind(HOST, 0) as other:
        assert refused(port_of(other), shared=True)
        with pytest.raises(OSError, match="Address already in use"):
            reserve(HOST, port_of(other))


def test_the_holder_takes_no_connection() -> None:
    with reserve(HOST, 0) as holder, pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port_of(holder)), timeout=5)


def test_when_one_listener_closes_connections_go_to_the_other() -> None:
    with reserve(HOST, 0) as holder:
        port = port_of(holder)
        first, second = bind(HOST, port, shared=True), bind(HOST, port, shared=True)
        first.close()
        with second:
            for _ in range(20):
                with socket.create_connection((HOST, port), timeout=5):
                    second.setblocking(True)
                    second.accept()[0].close()
