"""HTTP to one of several servers, whichever answers first.

A server that is down refuses at once, and the next one is asked. One that hangs, or that waits for a leader which
is gone, answers nothing: after `NEXT_MS` the next one is asked *as well*, and so on around, and the first answer
counts. So a new leader is found within two or three such steps, where waiting for each server in turn would take
as long as a node's silence may last; then somebody who is well would be declared dead. Example: three servers, the
leader stops answering. 0 ms: asked, silent. 150: the second, which still waits for the old leader. 300: the third,
likewise. 450: the first again. Meanwhile the others elect; 600: the second is asked anew and answers.

A request may so be acted on more than once, or although its answer was lost. Only requests that are harmless to
repeat go through here.
"""

import asyncio
from typing import Final, NamedTuple

import pycurl

from tickwheel.adapters.coordination.address import Address
from tickwheel.adapters.coordination.keys import Refused
from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.adapters.curl.curl_loop import EasyHandle
from tickwheel.adapters.curl.exchanges import Exchanges

TRY_MS: Final = 500
"""Bound of one try."""
NEXT_MS: Final = 150
_ROUNDS: Final = 2  # a kept-alive connection may be found dead
_MOST_SERVERS: Final = 3  # of those that are listed, asked for one request
_ANSWER_LIMIT_BYTES: Final = 16 * 1024 * 1024
_CONNECTION_COUNT: Final = 8
_ELSEWHERE_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
"""What a server says that can't serve just now: it has no leader, or is being stopped."""


class Answer(NamedTuple):
    """A server's answer that is about the request, not about the server."""

    status: int
    body: bytes


class HttpCalls:
    """Requests to the servers of an address, on the loop that first calls."""

    def __init__(self, address: Address, *, try_ms: int = TRY_MS) -> None:
        self._address, self._try_ms = address, try_ms
        self._preferred = 0
        self._exchanges = Exchanges(connection_count=_CONNECTION_COUNT, answer_limit_bytes=_ANSWER_LIMIT_BYTES)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: tuple[str, ...] = (), *, patience: int = 1
    ) -> Answer:
        """The first answer that is about the request. Raises `ConnectionError` when no server gave one.

        `patience` multiplies the waits, for what takes a server long (it hashes a password on purpose slowly).
        """
        urls = self._address.base_urls
        tries: dict[asyncio.Task[Answer], int] = {}
        problems: list[str] = []
        first, count = self._preferred, _ROUNDS * min(len(urls), _MOST_SERVERS)
        try:
            for number in range(count):
                at = (first + number) % len(urls)
                request = self._try(method, urls[at] + path, body, headers, self._try_ms * patience)
                tries[asyncio.create_task(request)] = at
                answer = await self._first_answer(tries, NEXT_MS * patience / 1000, problems)
                if answer is not None:
                    return answer
            while tries:
                answer = await self._first_answer(tries, None, problems)
                if answer is not None:
                    return answer
        finally:
            for late in tries:
                late.cancel()
            await asyncio.gather(*tries, return_exceptions=True)
        self._preferred = (first + 1) % len(urls)
        raise ConnectionError(f"{self._address.described} can't be reached: {problems[-1]}")

    async def _first_answer(
        self, tries: dict[asyncio.Task[Answer], int], within_s: float | None, problems: list[str]
    ) -> Answer | None:
        """Wait until some try has ended. Those without a good answer are taken out."""
        done, _ = await asyncio.wait(tries, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            at = tries.pop(ended)
            error = ended.exception()
            if error is None and (answer := ended.result()).status not in _ELSEWHERE_STATUSES:
                self._preferred = at
                return answer
            if error is not None and not isinstance(error, OSError):
                raise error
            problems.append(str(error) if error is not None else _shown(ended.result()))
        return None

    async def aclose(self) -> None:
        """Drop connections; requests that are under way fail."""
        self._exchanges.close()

    async def _try(self, method: str, url: str, body: bytes, headers: tuple[str, ...], within_ms: int) -> Answer:
        return Answer(*await self._exchanges.exchange(self._request(method, url, body, headers, within_ms)))

    def _request(self, method: str, url: str, body: bytes, headers: tuple[str, ...], within_ms: int) -> EasyHandle:
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        handle.setopt(pycurl.NOPROXY, "*")
        handle.setopt(pycurl.CUSTOMREQUEST, method)
        handle.setopt(pycurl.HTTPHEADER, ["Content-Type: application/json", "Expect:", *headers])
        if method != "GET":
            handle.setopt(pycurl.POSTFIELDS, body)
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, within_ms)
        handle.setopt(pycurl.TIMEOUT_MS, within_ms)
        for option, file in (
            (pycurl.CAINFO, self._address.ca_file or find_ca_file()),
            (pycurl.SSLCERT, self._address.cert_file),
            (pycurl.SSLKEY, self._address.key_file),
        ):
            if file:
                handle.setopt(option, file)
        return handle


def refuse(address: Address, answer: Answer) -> Refused:
    """The error for an answer that isn't the expected one."""
    return Refused(f"{address.described} refused a request: {_shown(answer)}")


def _shown(answer: Answer) -> str:
    return f"status {answer.status}: {answer.body[:200].decode(errors='replace').strip()}"
