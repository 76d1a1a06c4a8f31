"""Key sets at an address: what a slow, lying or broken issuer can do to those who show tokens."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tickwheel.adapters.jwt import key_sets
from tickwheel.adapters.jwt.key_sets import FRESH_MS, PAUSE_MS, SET_LIMIT_BYTES, KeySet, PublicKey, read_key_set
from tickwheel.ports.tokens import TokenRefused
from tickwheel.testing.virtual_clock import VirtualClock

from .issuer import key_set


class Held:
    """A source that answers when it is told to; `asked` counts."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.asked = 0
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self, source: str) -> bytes:
        self.asked += 1
        self.began.set()
        assert self.go_on.wait(20)
        return self.text


async def test_all_who_come_while_keys_are_fetched_wait_for_them() -> None:
    """Good tokens are not refused only because another request came first."""
    source = Held(key_set())
    keys = KeySet("set", VirtualClock(), source)
    finds = [asyncio.create_task(keys.find("RS256", "RS256")) for _ in range(20)]
    await asyncio.to_thread(source.began.wait, 20)
    finds += [asyncio.create_task(keys.find("ES256", None)) for _ in range(20)]
    source.go_on.set()
    found = await asyncio.gather(*finds)
    assert [len(each) for each in found] == [1] * 40
    assert source.asked == 1


async def test_known_keys_wait_for_nobody_while_a_made_up_one_is_looked_for() -> None:
    clock, source = VirtualClock(), Held(key_set())
    keys = KeySet("set", clock, source)
    source.go_on.set()
    await keys.find("RS256", "RS256")
    source.go_on.clear()
    source.began.clear()
    clock.step_ms(PAUSE_MS + 1)
    made_up = asyncio.create_task(keys.find("RS256", "made up"))
    await asyncio.to_thread(source.began.wait, 20)
    assert await keys.find("RS256", "RS256")
    source.go_on.set()
    assert not await made_up
    assert source.asked == 2


async def test_keys_that_are_away_are_asked_for_again_after_a_pause_only() -> None:
    clock, text = VirtualClock(), [b"rubbish"]
    asked = []

    def read(source: str) -> bytes:
        asked.append(source)
        return text[0]

    keys = KeySet("set", clock, read)
    for _ in range(5):
        with pytest.raises(TokenRefused, match="can't be had: it is no JSON Web Key Set"):
            await keys.find("RS256", None)
    assert len(asked) == 1
    text[0] = key_set()
    clock.step_ms(PAUSE_MS + 1)
    assert await keys.find("RS256", None)
    clock.step_ms(FRESH_MS - PAUSE_MS)
    assert await keys.find("RS256", None)
    assert len(asked) == 2


class _Odd(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        getattr(self, self.path.strip("/"))()

    def good(self) -> None:
        self._answer(200, key_set())

    def redirect(self) -> None:
        self._answer(302, b"", Location="/good")

    def redirect_with_keys(self) -> None:
        self._answer(307, key_set(), Location="file:///etc/passwd")

    def unauthorized(self) -> None:
        self._answer(401, key_set())

    def ten_megabytes(self) -> None:
        self._answer(200, b" " * (10 << 20) + key_set())

    def endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 65_536)

    def hang(self) -> None:
        self.server.go_on.wait(20)  # type: ignore[attr-defined]  # put there below

    def drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.go_on.wait(0.02):  # type: ignore[attr-defined]  # put there below
            self.wfile.write(b" ")

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, *_: Any) -> None:
        """Whoever is cut off is meant to be."""


@contextmanager
def odd_issuer() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Odd)
    server.go_on = threading.Event()  # type: ignore[attr-defined]  # for the handlers
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.go_on.set()  # type: ignore[attr-defined]  # as above
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("redirect", "answered 302"),
        ("redirect_with_keys", "answered 307"),
        ("unauthorized", "answered 401"),
        ("ten_megabytes", "can't be read"),
        ("endless", "can't be read"),
        ("hang", "can't be read"),
        ("drip", "can't be read"),
    ],
)
def test_an_address_that_does_not_just_answer_gives_no_keys(
    path: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path in ("hang", "drip"):
        monkeypatch.setattr(key_sets, "FETCH_TIMEOUT_MS", 300)
    with odd_issuer() as url, pytest.raises(OSError, match=problem) as caught:
        read_key_set(f"{url}/{path}")
    assert url not in str(caught.value)


def test_the_same_server_can_answer() -> None:
    with odd_issuer() as url:
        text = read_key_set(f"{url}/good")
    assert text == key_set()
    assert len(text) < SET_LIMIT_BYTES
    assert all(isinstance(key, PublicKey) for key in key_sets.parse_key_set(text))
