"""A `tickwheel serve` in a process of its own, as a user runs it."""

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

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.outcome import BenchFailed

APP = "tickwheel.interfaces.bench.recording:handlers"
START_LIMIT_S = 60
STOP_LIMIT_S = 60
SETTLE_LIMIT_S = 120
POLL_S = 0.01


class BenchServer:
    """Started on entering, stopped on leaving; `calls` gives what the `record` handler noted."""

    def __init__(self, store: str, folder: Path, *, flags: Sequence[str] = ()) -> None:
        self.port = _free_port()
        self._log = folder / "calls.bin"
        command = [sys.executable, "-m", "tickwheel", "serve", "--no-auth", "--allow-loopback", "--app", APP]
        command += ["--port", str(self.port), "--store", store, "--log-level", "warning", *flags]
        self._command = command
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
        """Of the server's process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it without waiting until it listens."""
        environ = {**os.environ, "BENCH_LOG": str(self._log)}
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
        noted = np.frombuffer(self._log.read_bytes(), dtype=np.int64).reshape(-1, 2)
        return noted[:, 0], noted[:, 1]

    def _wait_until_ready(self) -> None:
        waited = threading.Event()
        for _ in range(int(START_LIMIT_S / POLL_S)):
            assert self._process is not None
            if self._process.poll() is not None:
                raise BenchFailed(f"the server ended with code {self._process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                waited.wait(POLL_S)
        raise BenchFailed(f"the server did not listen within {START_LIMIT_S} s")


def wait_until_quiet(port: int, armed: int = 0) -> None:
    """Until nothing is due or running any more and just `armed` timers are left in the wheel."""
    waited = threading.Event()
    for _ in range(SETTLE_LIMIT_S * 10):
        values = _metrics(port)
        backlog = sum(number for name, number in values.items() if name.startswith("tickwheel_backlog"))
        running = sum(number for name, number in values.items() if name.startswith("tickwheel_in_flight"))
        uncommitted = values["tickwheel_uncommitted_completions"]
        if backlog == running == uncommitted == 0 and values["tickwheel_armed_timers"] == armed:
            return
        waited.wait(0.1)
    raise BenchFailed(f"the server was still busy after {SETTLE_LIMIT_S} s")


def _metrics(port: int) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    return {name: float(number) for name, number in lines}


def _free_port() -> int:
    """Below the range that the system gives to outgoing connections, which could take it in between."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
