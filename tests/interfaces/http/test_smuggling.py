"""No request hides in another one: what two servers could read differently is refused, and its connection closed.

A table is one test with one server: what fails is told by name.
"""

import asyncio
from dataclasses import dataclass

import pytest

from tickwheel.interfaces.http.framing import fault_of
from tickwheel.interfaces.http.server import HttpServer

from .sockets import GET, HEAD, SMUGGLED, Noting, connect, read_to_end, serving, statuses

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = HEAD + b"Content-Length: 2\r\n"


def coded(value: bytes) -> bytes:
    """A body in chunks, announced in these words."""
    return HEAD + b"Transfer-Encoding:" + value + b"\r\n\r\n0\r\n\r\n"


def sized(value: bytes) -> bytes:
    return HEAD + b"Content-Length:" + value + b"\r\n\r\n{}"


REFUSED = {
    "length, then coding": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding, then length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "length beside a strange coding": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "length beside a hidden coding": HEAD + b"Content-Length: 5\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\n{}",
    "the same length twice": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "list of lengths": sized(b" 2, 2"),
    "length with plus": sized(b" +2"),
    "length with minus": sized(b" -2"),
    "length with a blank inside": sized(b" 2 2"),
    "length with underscore": sized(b" 0_2"),
    "length in hexadecimal": sized(b" 0x2"),
    "length with a fraction": sized(b" 2.0"),
    "length with a parameter": sized(b" 2;x"),
    "length that overflows": sized(b" 18446744073709551618"),
    "empty length": sized(b""),
    "length in other digits": sized(b" \xd9\xa2"),
    "length on a folded line": sized(b"\r\n 2"),
    "length with a blank before its colon": HEAD + b"Content-Length : 2\r\n\r\n{}",
    "coding chunked, identity": coded(b" chunked, identity"),
    "coding identity, chunked": coded(b" identity, chunked"),
    "coding gzip, chunked": coded(b" gzip, chunked"),
    "coding identity": coded(b" identity"),
    "coding chunked twice": coded(b" chunked, chunked"),
    "coding xchunked": coded(b" xchunked"),
    "coding chunkedx": coded(b" chunkedx"),
    "coding after a comma": coded(b" ,chunked"),
    "coding before a comma": coded(b" chunked,"),
    "coding in quotes": coded(b' "chunked"'),
    "coding with a parameter": coded(b" chunked;q=1"),
    "empty coding": coded(b""),
    "coding after a vertical tab": coded(b" \x0bchunked"),
    "coding after a form feed": coded(b" \x0cchunked"),
    "coding before a vertical tab": coded(b" chunked\x0b"),
    "coding before a tab": coded(b" chunked\t"),
    "coding on a folded line": coded(b"\r\n chunked"),
    "coding with a blank before its colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings, turned round": HEAD
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0", 1) + b"0\r\n\r\n",
    "chunk size with 0x": CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    "chunk size with plus": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "chunk size with minus": CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
    "chunk size with underscore": CHUNKED + b"0_2\r\n{}\r\n0\r\n\r\n",
    "chunk size before a blank": CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n",
    "chunk size after a blank": CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
    "chunk size that is none": CHUNKED + b"g\r\n{}\r\n0\r\n\r\n",
    "empty chunk size": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "chunk size that overflows": CHUNKED + b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "chunk size before a bare line feed": CHUNKED + b"2\n{}\r\n0\r\n\r\n",
    "chunk size before a bare return": CHUNKED + b"2\r{}\r\n0\r\n\r\n",
    "chunk before a bare line feed": CHUNKED + b"2\r\n{}\n0\r\n\r\n",
    "chunk longer than it says": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "chunks that end in bare line feeds": CHUNKED + b"2\r\n{}\r\n0\n\n",
    "bare line feed in an extension": CHUNKED + b"2;a\n{}\r\n0\r\n\r\n",
    "bare return in an extension": CHUNKED + b"2;a\rb\r\n{}\r\n0\r\n\r\n",
    "length in a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 50\r\n\r\n",
    "coding in a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "bare line feeds": LENGTH.replace(b"\r\n", b"\n") + b"\n{}",
    "bare returns": LENGTH.replace(b"\r\n", b"\r") + b"\r{}",
    "one bare line feed": b"POST /first HTTP/1.1\r\nHost: x\nContent-Length: 2\r\n\r\n{}",
    "blank line of a bare line feed": HEAD + b"Content-Length: 2\r\n\n{}",
    "length after a bare return": HEAD + b"X: a\rContent-Length: 2\r\n\r\n{}",
    "folded line": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "folded first line": b"POST /first HTTP/1.1\r\n X: a\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a value": HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a name": HEAD + b"X\0: a\r\nContent-Length: 2\r\n\r\n{}",
    "blank before a colon": HEAD + b"X : a\r\nContent-Length: 2\r\n\r\n{}",
    "no name": HEAD + b": a\r\nContent-Length: 2\r\n\r\n{}",
    "no colon": HEAD + b"X\r\nContent-Length: 2\r\n\r\n{}",
    "target of another host": b"GET http://y/first HTTP/1.1\r\nHost: x\r\n\r\n",
    "target with a user": b"GET http://a@x/first HTTP/1.1\r\nHost: x\r\n\r\n",
    "target of another scheme": b"GET ftp://x/first HTTP/1.1\r\nHost: x\r\n\r\n",
    "target without a path": b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
    "target that is an authority": b"GET x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "target with a fragment": b"GET /first#a HTTP/1.1\r\nHost: x\r\n\r\n",
    "star for another method": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "tunnel": b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET /first\r\n\r\n",
    "HTTP/0.9 in words": b"GET /first HTTP/0.9\r\nHost: x\r\n\r\n",
    "HTTP/1.2": b"GET /first HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2.0 in the words of 1.1": b"GET /first HTTP/2.0\r\nHost: x\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "small letters": b"get /first HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown method": b"FOO /first HTTP/1.1\r\nHost: x\r\n\r\n",
    "tabs": b"GET\t/first\tHTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": b"GET /first HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /first HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "host with a path": b"GET /first HTTP/1.1\r\nHost: x/y\r\n\r\n",
    "host with a user": b"GET /first HTTP/1.1\r\nHost: a@x\r\n\r\n",
    "two tokens": b"GET /first HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
}


@dataclass
class Heard:
    """What came back, and which requests reached the application."""

    statuses: list[int]
    begun: list[str]
    whole: list[str]
    closing: bool


async def said(server: HttpServer, app: Noting, first: bytes, then: bytes, *, together: bool) -> Heard:
    """Both parts in one piece, or the second one when the first is answered; everything until it closes."""
    app.forget()
    reader, writer = await connect(server)
    writer.write(first + then if together else first)
    received = b""
    if not together:
        received = await reader.readuntil(b"\r\n\r\n")
        writer.write(then)
    received += await read_to_end(reader)
    writer.close()
    return Heard(statuses(received), app.begun, app.whole, b"connection: close" in received)


@pytest.mark.parametrize("together", [True, False], ids=["together", "apart"])
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_a_request(together: bool) -> None:
    app = Noting()
    wrong = {}
    async with serving(app) as server:
        for name, data in REFUSED.items():
            heard = await said(server, app, data, SMUGGLED, together=together)
            if heard.statuses != [400] or not heard.closing or heard.whole or "/smuggled" in heard.begun:
                wrong[name] = heard
    assert wrong == {}


HARMLESS = {
    "upgrade to h2c": b"GET /first HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABk\r\n\r\n",
    "upgrade to h2c with a body": LENGTH + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n{}",
    "upgrade to a web socket": b"GET /first HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\n\r\n",
    "the last one of its connection": b"GET /first HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "HTTP/1.0": b"GET /first HTTP/1.0\r\n\r\n",
    "HTTP/1.0 that would stay": b"GET /first HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
}


@pytest.mark.parametrize("together", [True, False], ids=["together", "apart"])
async def test_what_ends_its_connection_is_answered_and_nothing_after_it_is_a_request(together: bool) -> None:
    app = Noting()
    wrong = {}
    async with serving(app) as server:
        for name, data in HARMLESS.items():
            heard = await said(server, app, data, SMUGGLED, together=together)
            if heard.statuses != [200] or heard.begun != ["/first"] or heard.whole != ["/first"]:
                wrong[name] = heard
    assert wrong == {}


PLAIN = {
    "length": LENGTH + b"\r\n{}",
    "length with zeros": sized(b" 002"),
    "length between blanks": sized(b" \t2 "),
    "chunks": CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
    "chunks in capitals": coded(b" CHUNKED"),
    "chunks after a tab": coded(b"\tchunked"),
    "chunks with an extension": CHUNKED + b'2;a="b"\r\n{}\r\n0\r\n\r\n',
    "chunks with a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
    "underscores are no hyphens": HEAD
    + b"Transfer_Encoding: chunked\r\nContent_Length: 9\r\nContent-Length: 2\r\n\r\n{}",
    "request inside a body": HEAD + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "request inside the body of a GET": b"GET /first HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    % len(SMUGGLED)
    + SMUGGLED,
    "expectation": LENGTH + b"Expect: 100-continue\r\n\r\n{}",
    "strange expectation": LENGTH + b"Expect: the-worst\r\n\r\n{}",
    "target with its host": b"GET http://x/first HTTP/1.1\r\nHost: X\r\n\r\n",
    "host with a port": b"GET /first HTTP/1.1\r\nHost: my_host.example:8080\r\n\r\n",
    "host of IPv6": b"GET /first HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
}


LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_what_can_be_read_in_one_way_is_one_request_and_the_next_one_is_heard() -> None:
    app = Noting()
    wrong = {}
    async with serving(app) as server:
        for name, data in PLAIN.items():
            heard = await said(server, app, data, LAST, together=True)
            answers = [status for status in heard.statuses if status != 100]
            if answers != [200, 200] or heard.whole != ["/first", "/last"]:
                wrong[name] = heard
    assert wrong == {}


async def test_trailers_never_count_as_headers() -> None:
    app = Noting()
    async with serving(app) as server:
        reader, writer = await connect(server)
        trailers = b"Authorization: Bearer stolen\r\nX-Forwarded-For: a\r\nIdempotency-Key: b\r\n"
        writer.write(CHUNKED + b"2\r\n{}\r\n0\r\n" + trailers + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert app.headers[0].keys() == {b"host", b"content-type", b"transfer-encoding"}


@pytest.mark.parametrize("filling", [b"2;" + b"a" * 4096, b"0" * 4096], ids=["extensions", "digits"])
async def test_chunks_of_much_head_and_no_body_are_refused(filling: bytes) -> None:
    app = Noting()
    async with serving(app) as server:
        reader, writer = await connect(server)
        writer.write(CHUNKED)
        ended = asyncio.ensure_future(read_to_end(reader))
        while not ended.done():  # it ends by being refused: nobody could send for ever
            writer.write(filling)
            await asyncio.sleep(0)
        assert statuses(await ended) == [400]
        writer.close()
    assert app.whole == []


async def test_many_small_chunks_are_a_body_like_any_other() -> None:
    app = Noting()
    async with serving(app) as server:
        reader, writer = await connect(server)
        writer.write(CHUNKED)
        for _ in range(40):
            writer.write(b"1\r\nx\r\n" * 500)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        assert statuses(await reader.readuntil(b"\r\n\r\n")) == [200]
        writer.close()
    assert app.whole == ["/first"]


async def test_a_fault_behind_a_whole_request_does_not_take_the_place_of_its_answer() -> None:
    app = Noting()
    async with serving(app) as server:
        reader, writer = await connect(server)
        writer.write(GET + REFUSED["two lengths"] + SMUGGLED)
        received = await read_to_end(reader)
        writer.close()
    assert statuses(received) == [200]
    assert app.whole == ["/first"]


async def test_a_fault_after_an_answer_is_answered() -> None:
    async with serving(Noting()) as server:
        reader, writer = await connect(server)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\nok")
        writer.write(REFUSED["two lengths"])
        assert statuses(await read_to_end(reader)) == [400]
        writer.close()


def test_a_host_that_is_too_long_for_a_name_is_refused() -> None:
    assert fault_of([(b"host", b"a" * 400)], "1.1", b"GET", b"/") != ""
    assert fault_of([(b"host", b"a" * 200)], "1.1", b"GET", b"/") == ""
