"""libcurl's multi interface, driven by an asyncio event loop.

libcurl says through two callbacks which sockets it waits for and when its next timer is due; it is driven by
`socket_action`. That call must never be made from inside one of libcurl's callbacks, so the callbacks only
note what is wanted: sockets go to the poller, a due timer becomes one `call_soon`, however many transfers were
added in this iteration. Ended transfers are collected once per wake-up, outside of libcurl.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pycurl

from tickwheel.adapters.curl.poller import make_poller

EasyHandle: TypeAlias = Any  # pycurl has no types
OnDone: TypeAlias = Callable[[EasyHandle, int], None]
"""Called with a handle that was removed already and libcurl's result code (0 = complete)."""

_NO_CODE: Final = 0


class CurlLoop:
    """Runs transfers until they end. All methods on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_done: OnDone, *, connection_count: int) -> None:
        self._loop = loop
        self._on_done = on_done
        self._poller = make_poller()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: float | None = None  # loop time at which libcurl wants to be called
        self._kicked = False
        self._closed = False
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, connection_count)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        loop.add_reader(self._poller.fileno(), self._on_ready)

    def add(self, handle: EasyHandle) -> None:
        """Begin a transfer in this or the next iteration. Raises pycurl.error if libcurl refuses it."""
        self._multi.add_handle(handle)

    def remove(self, handle: EasyHandle) -> None:
        """Abort a transfer; `on_done` is not called, its connection is closed."""
        self._multi.remove_handle(handle)

    def close(self) -> None:
        """Release everything; transfers must have ended or been removed. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._poller.fileno())
        self._multi.close()
        self._poller.close()

    def _on_socket(self, wanted: int, descriptor: int, _multi: object, _data: object) -> None:
        if wanted == pycurl.POLL_REMOVE:
            self._poller.forget(descriptor)
        else:
            self._poller.watch(descriptor, wanted)

    def _on_timer(self, wait_ms: int) -> None:
        if wait_ms < 0:
            self._timer_due = None
        elif wait_ms == 0:
            self._timer_due = None
            if not self._kicked:
                self._kicked = True
                self._loop.call_soon(self._kick)
        else:
            self._arm(self._loop.time() + wait_ms / 1000)

    def _arm(self, due: float) -> None:
        # libcurl moves its timer with each request. A timer that is set too early is left to ring for
        # nothing, which is cheaper than making a new one each time.
        self._timer_due = due
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        due = self._timer_due
        if due is None:
            return
        if self._loop.time() < due:
            self._arm(due)
        else:
            self._timer_due = None
            self._kick()

    def _kick(self) -> None:
        self._kicked = False
        if not self._closed:
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            self._collect()

    def _on_ready(self) -> None:
        for descriptor, bits in self._poller.ready():
            self._multi.socket_action(descriptor, bits)
        self._collect()

    def _collect(self) -> None:
        ended: list[tuple[EasyHandle, int]] = []
        queued = 1
        while queued:
            queued, complete, failed = self._multi.info_read()
            ended += [(handle, _NO_CODE) for handle in complete]
            ended += [(handle, code) for handle, code, _text in failed]
        for handle, _code in ended:
            self._multi.remove_handle(handle)
        for handle, code in ended:
            self._on_done(handle, code)
