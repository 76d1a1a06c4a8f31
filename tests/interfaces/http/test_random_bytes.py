"""Bytes that are nearly requests, to a real server: it answers or closes, never with a 5xx, and lives on.

What they could be read as is looked at in `test_smuggling.py`; this looks for what nobody has thought of.
"""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from ...fuzz.mutations import Mutator
from .served import served
from .sockets import read_to_end, statuses
from .test_smuggling import HARMLESS, PLAIN, REFUSED

JOB = b'{"schedule_type":"CRON","cron_expression":"0 0 1 1 *","target":{"endpoint":"https://example.com/"}}'
HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
REQUESTS = (
    b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB,
    b"POST /v1/jobs HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(JOB)
    + JOB
    + b"\r\n0\r\n\r\n",
    b"POST /v1/jobs/batch HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n[" % (len(JOB) + 2) + JOB + b"]",
    b"GET /v1/jobs?limit=3&status=FAILED HTTP/1.1\r\n" + HEAD + b"Authorization: Bearer a.b.c\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3,
    *REFUSED.values(),
    *HARMLESS.values(),
    *PLAIN.values(),
)
WORDS = (
    *(
        b"\r\n",
        b"\r\n\r\n",
        b": ",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
    ),
    *(
        b"0\r\n\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Upgrade: h2c\r\n",
        b"/v1/jobs",
        b"?",
        b"%00",
    ),
)
CONNECTION_COUNT = settings().max_examples * 5
AT_ONCE = 20
PATIENCE_S = 60


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as url:
        yield url


async def say(address: str, data: bytes, cut: int) -> bytes:
    """In two pieces, and then no more; everything until the server closes."""
    reader, writer = await asyncio.open_connection(urlsplit(address).hostname, urlsplit(address).port)
    try:
        for piece in (data[:cut], data[cut:]):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:  # it has refused and closed
        pass
    received = await read_to_end(reader)
    writer.close()
    return received


async def test_nearly_requests_are_answered_or_refused_and_the_server_lives(address: str) -> None:
    mutator = Mutator(REQUESTS, WORDS, 0)
    said = [mutator.next() for _ in range(CONNECTION_COUNT)]
    wrong, answered = [], 0
    for start in range(0, len(said), AT_ONCE):
        together = said[start : start + AT_ONCE]
        async with asyncio.timeout(PATIENCE_S):
            heard = await asyncio.gather(*(say(address, data, len(data) // 2) for data in together))
        for data, received in zip(together, heard, strict=True):
            answered += bool(statuses(received))
            if any(status >= 500 for status in statuses(received)) or (received and not statuses(received)):
                wrong.append((data, received))
    assert wrong == []
    assert answered > CONNECTION_COUNT // 2
    with urllib.request.urlopen(address + "/healthz") as response:
        assert json.load(response)["status"] == "ok"
