"""An HTTP server on loopback that answers from a script, and remembers what it was sent."""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

HANG = b"hang"
"""Read the request and answer nothing."""
CUT = b""
"""Read the request and close."""


class Seen(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


def answer(status: int, body: bytes = b"", *, kind: str = "application/json", more: Sequence[str] = ()) -> bytes:
    """The bytes of a whole answer."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def problem(status: int, code: str, *, detail: str = "because", more: Sequence[str] = ()) -> bytes:
    """The bytes of a problem."""
    body = f'{{"type":"x","title":"X","status":{status},"detail":"{detail}","code":"{code}","errors":[]}}'.encode()
    return answer(status, body, kind="application/problem+json", more=more)


class ScriptedServer:
    """Gives the answers in order, one per request; the last one again when they run out."""

    def __init__(self, *answers: bytes) -> None:
        self.seen: list[Seen] = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            _close(connection)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number = len(self._connections)
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, number))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as file:
            while True:
                try:
                    request = _read(file, number)
                except (OSError, ValueError):
                    return
                if request is None:
                    return
                with self._lock:
                    self.seen.append(request)
                    reply = self._answers[min(len(self.seen), len(self._answers)) - 1]
                if reply is CUT:
                    return
                if reply is HANG:
                    self._closing.wait(20)
                    return
                connection.sendall(reply)


def _read(file, number: int) -> Seen | None:  # type: ignore[no-untyped-def]  # a BufferedReader
    first = file.readline()
    if not first:
        return None
    method, path, _ = first.decode().split(" ")
    headers = {}
    while (line := file.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Seen(method, path, headers, file.read(int(headers.get("content-length", "0"))), number)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
