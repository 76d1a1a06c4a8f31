"""A `tickwheel serve` in a process of its own, or in several, as a user runs it."""

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.interfaces.bench.cpu import children_of, process_ms
from tickwheel.interfaces.bench.outcome import BenchFailed

APP = "tickwheel.interfaces.bench.recording:handlers"
START_LIMIT_S = 60
STOP_LIMIT_S = 60
SETTLE_LIMIT_S = 120
POLL_S = 0.01
_BUSY = ("backlog", "in_flight", "uncommitted_completions", "held_timers", "parked_timers")

HANDLER_SLOTS: Final = 4_096
"""Async handlers that take no time: with fewer slots than a burst keeps busy, the slots would be measured."""


class BenchServer:
    """Started on entering, stopped on leaving; `calls` gives what the `record` handler noted.

    Several processes are there once each holds its part of the shards. `own_ports` are where each answers alone.
    With a `token` requests need one, this or another.
    """

    def __init__(
        self,
        store: str,
        folder: Path,
        *,
        flags: Sequence[str] = (),
        processes: int = 1,
        app: str = APP,
        handler_slots: int = HANDLER_SLOTS,
        token: str = "",
    ) -> None:
        if processes > 1 and not store.startswith(("postgresql:", "postgres:")):
            raise BenchFailed(
                "--processes above 1 needs a store that several can share: give it an empty database by "
                "--store postgresql://..."
            )
        self.port = _free_port(processes + 1)
        self.own_ports = [self.port] if processes == 1 else [self.port + n + 1 for n in range(processes)]
        self._log, self.told = folder / "calls.bin", folder / "told"
        command = [sys.executable, "-m", "tickwheel", "serve", "--allow-loopback", "--app", app]
        command += [] if token else ["--no-auth"]
        command += ["--port", str(self.port), "--store", store, "--log-level", "warning", *flags]
        command += ["--processes", str(processes), "--handler-slots", str(handler_slots)]
        self._command = command
        self._token = token
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "BenchServer":
        self.start()
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the server's process; the parent of several."""
        assert self._process is not None
        return self._process.pid

    def cpu_ms(self) -> int:
        """What all processes of the server have used; 0 where that can't be seen."""
        return sum(map(process_ms, (self.pid, *(children_of(self.pid) if len(self.own_ports) > 1 else ()))))

    def start(self) -> None:
        """Start it without waiting until it listens."""
        secret = {"TICKWHEEL_TOKEN": self._token} if self._token else {}
        environ = {**os.environ, **secret, "BENCH_LOG": str(self._log), "BENCH_TOLD": str(self.told)}
        self._log.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603 - our own

    def signal(self, number: signal.Signals) -> None:
        """Send one, if the process lives."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def wait_until_ended(self) -> None:
        """Of itself, or after a signal."""
        assert self._process is not None
        self._process.wait(STOP_LIMIT_S)

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it as an operator does."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def calls(self) -> tuple[Ints, Ints]:
        """(scheduled ms, called ms) of all calls, once the server has stopped."""
        noted = self.noted(2)
        return noted[:, 0], noted[:, 1]

    def noted(self, columns: int) -> Ints:
        """A row per call, of as many columns as the app notes, once the server has stopped."""
        return np.frombuffer(self._log.read_bytes(), dtype=np.int64).reshape(-1, columns)

    def _wait_until_ready(self) -> None:
        waited = threading.Event()
        for _ in range(int(START_LIMIT_S / POLL_S)):
            assert self._process is not None
            if self._process.poll() is not None:
                raise BenchFailed(f"the server ended with code {self._process.returncode}")
            try:
                for port in self.own_ports:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                if len(self.own_ports) == 1 or self._is_shared_out():
                    return
            except OSError:
                pass
            waited.wait(POLL_S)
        raise BenchFailed(f"the server did not listen within {START_LIMIT_S} s")

    def _is_shared_out(self) -> bool:
        held = [_gauge(_metrics(port, self._token), "tickwheel_shards_held") for port in self.own_ports]
        return all(held) and sum(held) == SHARD_COUNT


def wait_until_quiet(*ports: int, armed: int = 0, ended: int = 0, token: str = "") -> None:
    """Until nothing is due or running any more and just `armed` timers are left in the wheels of all.

    `ended` attempts must have ended as well: timers that are being claimed right now are in no gauge.
    """
    waited = threading.Event()
    for _ in range(SETTLE_LIMIT_S * 10):
        seen = [_metrics(port, token) for port in ports]
        busy = sum(_gauge(values, f"tickwheel_{name}") for name in _BUSY for values in seen)
        done = sum(_gauge(values, "tickwheel_attempts_total") for values in seen)
        left = sum(_gauge(values, "tickwheel_armed_timers") for values in seen)
        if not busy and left == armed and done >= ended:
            return
        waited.wait(0.1)
    raise BenchFailed(f"the server was still busy after {SETTLE_LIMIT_S} s, or lost something")


def _metrics(port: int, token: str) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers=bearer(token))
    text = connection.getresponse().read().decode()
    connection.close()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    return {name: float(number) for name, number in lines}


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token; none for the empty one."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _gauge(values: dict[str, float], name: str) -> float:
    """The sum over its labels."""
    return sum(number for series, number in values.items() if series.partition("{")[0] == name)


def _free_port(count: int) -> int:
    """The first of `count` in a row, below the range that the system gives to outgoing connections."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        if all(_is_free(port + number) for number in range(count)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
