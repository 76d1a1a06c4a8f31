"""Several nodes on one PostgreSQL, and the faults that `tickwheel bench failover` brings on one of them."""

import http.client
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

from tickwheel.interfaces.bench.outcome import BenchFailed
from tickwheel.interfaces.bench.server import BenchServer

READY_LIMIT_S: Final = 60
POLL_S: Final = 0.05
FAULTS: Final = ("kill", "freeze", "cut", "stop")


class Nodes:
    """`count` servers, started on entering; with `cut` each reaches the store through a forwarder of its own."""

    def __init__(self, store: str, folder: Path, count: int, *, fault: str) -> None:
        self._fault = fault
        self._forwarders = [_forward(store) for _ in range(count)] if fault == "cut" else []
        urls = [_with_port(store, port) for port, _ in self._forwarders] or [store] * count
        self.servers: Sequence[BenchServer] = [BenchServer(url, folder) for url in urls]

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.__enter__()
            for number in range(len(self.servers)):
                self.wait_until_ready(number)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, process in self._forwarders:
            process.send_signal(signal.SIGCONT)
        for server in self.servers:
            server.signal(signal.SIGCONT)
            server.signal(signal.SIGTERM)
        for server in self.servers:
            server.stop()
        for _, process in self._forwarders:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def break_one(self, number: int) -> None:
        """The fault, now."""
        server = self.servers[number]
        match self._fault:
            case "kill":
                server.kill()
            case "freeze":
                server.signal(signal.SIGSTOP)
            case "cut":
                self._forwarders[number][1].send_signal(signal.SIGSTOP)
            case _:
                server.signal(signal.SIGTERM)

    def mend(self, number: int) -> None:
        """The node goes on, or is started again; returns when it takes requests."""
        server = self.servers[number]
        if self._fault == "freeze":
            server.signal(signal.SIGCONT)
        elif self._fault == "cut":
            self._forwarders[number][1].send_signal(signal.SIGCONT)
        else:
            server.wait_until_ended()
            server.start()
        self.wait_until_ready(number)

    def wait_until_ready(self, number: int) -> None:
        """Until the node says that it takes work."""
        waited = threading.Event()
        for _ in range(int(READY_LIMIT_S / POLL_S)):
            if not self.servers[number].runs:
                raise BenchFailed("a node ended by itself")
            if _is_ready(self.servers[number].port):
                return
            waited.wait(POLL_S)
        raise BenchFailed(f"a node was not ready within {READY_LIMIT_S} s")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _forward(store: str) -> "tuple[int, subprocess.Popen[str]]":
    target = str(urlsplit(store).port or 5432)
    command = [sys.executable, "-m", "tickwheel.interfaces.bench.forwarder", target]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    assert process.stdout is not None
    return int(process.stdout.readline()), process


def _with_port(store: str, port: int) -> str:
    parts = urlsplit(store)
    who = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return urlunsplit(parts._replace(netloc=f"{who}127.0.0.1:{port}"))
