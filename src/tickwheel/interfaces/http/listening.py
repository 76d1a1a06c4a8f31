"""Sockets that listen.

Several processes of one server share an address by SO_REUSEPORT: each binds a socket of its own, and the kernel
deals new connections out to those that listen, by a hash of the client's address. One socket that all accept from
would be simpler, but whoever wakes up first takes all that wait: of 64 connections that a client opened at once,
one of two processes got 48 to 64 (eight trials of each); with sockets of their own, 22 to 42. Clients keep their
connections, so it would stay so. When a process dies its socket is gone with it, and the next connection goes to
one that lives. Sockets that the parent made and handed down would outlive the process, with connections waiting in
them.

SO_REUSEPORT also lets a second server onto an address without a word. So the parent `reserve`s it first: without
the option, as if it were to listen alone, and only then allows it to its children.
"""

import socket
from typing import Final

BACKLOG_COUNT: Final = 2048


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket that listens, alone or with others on its address. Raises `OSError` if it isn't free."""
    listener = _bound(host, port, shared=shared)
    try:
        listener.listen(BACKLOG_COUNT)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def reserve(host: str, port: int) -> socket.socket:
    """A socket that holds the address for children and takes no connections. Raises `OSError` if it isn't free."""
    holder = _bound(host, port, shared=False)
    _share(holder)
    return holder


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            _share(listener)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _share(listener: socket.socket) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
