"""Requests whose answers are awaited and fit into memory, on the event loop that first asks."""

import asyncio
from io import BytesIO

import pycurl

from tickwheel.adapters.curl.curl_loop import CurlLoop, EasyHandle


class Exchanges:
    """Requests under way, and the connections that are kept for the next ones."""

    def __init__(self, *, connection_count: int, answer_limit_bytes: int) -> None:
        self._connection_count, self._answer_limit_bytes = connection_count, answer_limit_bytes
        self._curl: CurlLoop | None = None
        self._closed = False
        self._pending: dict[EasyHandle, asyncio.Future[int]] = {}

    async def exchange(self, handle: EasyHandle) -> tuple[int, bytes]:
        """Carry out a request that is all set, and close its handle: status and body.

        Raises `ConnectionError` in libcurl's words; an answer beyond the limit is none.
        """
        received = BytesIO()

        def keep(chunk: bytes) -> int:
            return received.write(chunk) if received.tell() + len(chunk) <= self._answer_limit_bytes else -1

        loop = asyncio.get_running_loop()
        try:
            if self._closed:
                raise ConnectionError("closed")
            if self._curl is None:
                self._curl = CurlLoop(loop, self._on_done, connection_count=self._connection_count)
            handle.setopt(pycurl.WRITEFUNCTION, keep)
            ended = self._pending[handle] = loop.create_future()
            self._curl.add(handle)
            code = await ended
            if code:
                raise ConnectionError(handle.errstr() or f"libcurl error {code}")
            return handle.getinfo(pycurl.RESPONSE_CODE), received.getvalue()
        finally:
            if handle in self._pending:
                self._drop(handle)
            handle.close()

    def close(self) -> None:
        """Drop connections; requests that are under way or come later fail."""
        self._closed = True
        for handle, ended in list(self._pending.items()):
            self._drop(handle)
            if not ended.done():
                ended.set_exception(ConnectionError("closed"))
        if self._curl is not None:
            self._curl.close()
            self._curl = None

    def _on_done(self, handle: EasyHandle, code: int) -> None:
        ended = self._pending.pop(handle, None)
        if ended is not None and not ended.done():
            ended.set_result(code)

    def _drop(self, handle: EasyHandle) -> None:
        del self._pending[handle]
        if self._curl is not None:
            self._curl.remove(handle)
