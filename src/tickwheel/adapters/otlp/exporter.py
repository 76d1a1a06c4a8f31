"""Sends spans to a collector: OTLP over HTTP, as JSON.

Spans wait in a bounded queue and leave in batches, one at a time. Whoever adds one never waits, and no work
depends on the collector: while it is away, the batch under way is tried again a few times and then dropped, and
what finds the queue full is dropped at once. Both are counted.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import pycurl

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.adapters.curl.curl_loop import EasyHandle
from tickwheel.adapters.curl.exchanges import Exchanges
from tickwheel.adapters.otlp.json_spans import export_body
from tickwheel.ports.clock import Clock
from tickwheel.ports.spans import Attribute, Span

QUEUE_COUNT: Final = 4_096
BATCH_COUNT: Final = 256
"""Encoding so many takes about a millisecond of the loop."""
EVERY_MS: Final = 1_000
WITHIN_MS: Final = 5_000
TRIES: Final = 4
_ANSWER_LIMIT_BYTES: Final = 64 << 10
_AGAIN: Final = frozenset({0, 429, 502, 503, 504})
"""What OTLP says may be sent again; 0: no answer."""


class OtlpExporter:
    """A `ports.spans.SpanSink`; `run` sends. On the event loop's thread."""

    def __init__(
        self, url: str, clock: Clock, resource: Mapping[str, Attribute], headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`url` is that of the traces themselves, such as http://127.0.0.1:4318/v1/traces."""
        self._url, self._clock, self._resource = url, clock, resource
        self._lines = ["Content-Type: application/json", "Expect:", *(f"{key}: {value}" for key, value in headers)]
        self._waiting: deque[Span] = deque()
        self._exchanges = Exchanges(connection_count=1, answer_limit_bytes=_ANSWER_LIMIT_BYTES)
        self.exported_count = 0
        self.dropped_count = 0

    @property
    def waiting_count(self) -> int:
        """Spans that were not sent yet."""
        return len(self._waiting)

    def add(self, span: Span) -> None:
        """See the port."""
        if len(self._waiting) >= QUEUE_COUNT:
            self.dropped_count += 1
        else:
            self._waiting.append(span)

    async def run(self) -> None:
        """Send for ever. Raises `ConnectionError` when a batch was dropped: the next run goes on with the rest."""
        while True:
            while self._waiting:
                await self._send_batch()
            await self._clock.sleep_ms(EVERY_MS)

    async def flush(self) -> None:
        """Send what waits, once: the last thing that is done. Raises nothing."""
        try:
            while self._waiting:
                await self._send_batch(tries=1)
        except ConnectionError:
            self.dropped_count += len(self._waiting)
            self._waiting.clear()

    def close(self) -> None:
        """Drop the connection."""
        self._exchanges.close()

    async def _send_batch(self, tries: int = TRIES) -> None:
        batch = list(islice(self._waiting, BATCH_COUNT))
        body = export_body(batch, self._resource)
        problem = ""
        for number in range(tries):
            if number:
                await self._clock.sleep_ms(EVERY_MS << number)
            status, problem = await self._try(body)
            if 200 <= status < 300:
                self._forget(len(batch))
                self.exported_count += len(batch)
                return
            if status not in _AGAIN:
                break
        self._forget(len(batch))
        self.dropped_count += len(batch)
        raise ConnectionError(f"spans were dropped: the collector {problem}")

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()

    async def _try(self, body: bytes) -> tuple[int, str]:
        try:
            status, _ = await self._exchanges.exchange(self._request(body))
        except ConnectionError as error:
            return 0, f"can't be reached: {error}"
        return status, f"answered {status}"

    def _request(self, body: bytes) -> EasyHandle:
        handle = pycurl.Curl()
        for option, value in (
            (pycurl.URL, self._url),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),  # the headers may hold a key
            (pycurl.HTTPHEADER, self._lines),
            (pycurl.POSTFIELDS, body),
            (pycurl.CONNECTTIMEOUT_MS, WITHIN_MS),
            (pycurl.TIMEOUT_MS, WITHIN_MS),
        ):
            handle.setopt(option, value)
        ca_file = find_ca_file()
        if ca_file:
            handle.setopt(pycurl.CAINFO, ca_file)
        return handle
