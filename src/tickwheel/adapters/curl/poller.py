"""Readiness of libcurl's sockets behind one file descriptor that an event loop watches.

libcurl changes its mind about a socket twice per request. Telling the event loop each time costs 50 µs per
request on uvloop (it closes and makes a poll handle); here it is one system call on a poller of our own, and
the loop is woken once for all sockets that are ready.
"""

import select
import selectors
import sys
from collections.abc import Iterable
from typing import Final, Protocol

import pycurl

_BATCH_COUNT: Final = 256


class Poller(Protocol):
    """The sockets that libcurl waits for."""

    def fileno(self) -> int:
        """Readable whenever a watched socket is ready."""
        ...

    def watch(self, descriptor: int, wanted: int) -> None:
        """Wait for `wanted` (POLL_IN, POLL_OUT or both) from now on."""
        ...

    def forget(self, descriptor: int) -> None:
        """Wait no longer; unknown descriptors are ignored."""
        ...

    def ready(self) -> Iterable[tuple[int, int]]:
        """Descriptors that are ready now, each with the CSELECT bits for `socket_action`; bounded."""
        ...

    def close(self) -> None: ...


class SelectorPoller:
    """On whatever the platform has (kqueue on macOS)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        number = getattr(self._selector, "fileno", None)
        if number is None:
            raise RuntimeError("libcurl needs epoll or kqueue here")
        return int(number())

    def watch(self, descriptor: int, wanted: int) -> None:
        events = selectors.EVENT_READ if wanted & pycurl.POLL_IN else 0
        if wanted & pycurl.POLL_OUT:
            events |= selectors.EVENT_WRITE
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def ready(self) -> Iterable[tuple[int, int]]:
        return [
            (
                key.fd,
                (pycurl.CSELECT_IN if events & selectors.EVENT_READ else 0)
                | (pycurl.CSELECT_OUT if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(0)[:_BATCH_COUNT]
        ]

    def close(self) -> None:
        self._selector.close()


if sys.platform == "linux":
    _EVENTS: Final = {
        pycurl.POLL_IN: select.EPOLLIN,
        pycurl.POLL_OUT: select.EPOLLOUT,
        pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
    }
    _FAILED: Final = select.EPOLLERR | select.EPOLLHUP
    _SELECT_BITS: Final = tuple(
        (pycurl.CSELECT_IN if events & (select.EPOLLIN | select.EPOLLHUP) else 0)
        | (pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0)
        | (pycurl.CSELECT_ERR if events & select.EPOLLERR else 0)
        for events in range(_FAILED | select.EPOLLIN | select.EPOLLOUT | select.EPOLLPRI | 1)
    )

    class EpollPoller:
        """On epoll itself, without the objects that `selectors` makes per change."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._watched: set[int] = set()

        def fileno(self) -> int:
            return self._epoll.fileno()

        def watch(self, descriptor: int, wanted: int) -> None:
            if descriptor in self._watched:
                self._epoll.modify(descriptor, _EVENTS[wanted])
            else:
                self._epoll.register(descriptor, _EVENTS[wanted])
                self._watched.add(descriptor)

        def forget(self, descriptor: int) -> None:
            if descriptor in self._watched:
                self._watched.remove(descriptor)
                self._epoll.unregister(descriptor)

        def ready(self) -> Iterable[tuple[int, int]]:
            return [(descriptor, _SELECT_BITS[events]) for descriptor, events in self._epoll.poll(0, _BATCH_COUNT)]

        def close(self) -> None:
            self._epoll.close()


def make_poller() -> Poller:
    """The cheapest poller of this platform."""
    return EpollPoller() if sys.platform == "linux" else SelectorPoller()
