"""`tickwheel serve` as a child process: started, killed, frozen, stopped, started again."""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .processes import free_ports

PORTS = range(20_000, 32_001)
START_LIMIT_S = 60
STOP_LIMIT_S = 30
POLL_S = 0.02
RESTART_S = 0.5


class Serve:
    """One node on one port. It runs in `folder`, which keeps its log; `group` is the group id that it runs under.

    A node on SQLite keeps its database there as well; `store` names another store.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        store: str | None = None,
        name: str = "server",
        group: int | None = None,
        checkout: Path | None = None,
    ) -> None:
        self.port, self.name, self.group = free_port(), name, group
        self.log = folder / f"{name}.log"
        self.frozen = False
        self._folder = folder
        self._environment = None if checkout is None else {**os.environ, "PYTHONPATH": str(checkout / "src")}
        where = ("--store", store) if store else ()
        self._command = [sys.executable, "-m", "tickwheel", "serve", "--no-auth", "--allow-loopback"]
        self._command += ["--port", str(self.port), "--data", str(folder / "data"), *where, *flags]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; see `wait_until_ready`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._folder,
                group=self.group,
                env=self._environment,
            )

    @property
    def pid(self) -> int:
        """Of the latest process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Until it says that it can take work."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if not self.runs:
                assert self._process is not None
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{self.said()}")
            if self.answers_ready():
                return
            time.sleep(POLL_S)
        raise TimeoutError(f"{self.name} was not ready within {START_LIMIT_S} s:\n{self.said()}")

    def keep_starting(self) -> None:
        """Start it, and again while it ends because its store is away, as a service manager does."""
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            self.start()
            try:
                self.wait_until_ready()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RESTART_S)
            else:
                return

    def answers_ready(self) -> bool:
        """What it says now."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3_000:] if self.log.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.frozen = False

    def freeze(self) -> None:
        """SIGSTOP: it lives and does nothing."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self._signal(signal.SIGCONT)
        self.frozen = False

    def begin_stop(self) -> None:
        """SIGTERM, as an operator sends it; it drains and ends."""
        self._signal(signal.SIGTERM)

    def stop(self) -> int | None:
        """Stop it and wait; its exit code, None when it did not run or had to be killed."""
        if self._process is None or self._process.poll() is not None:
            return None
        if self.frozen:
            self.thaw()
        self.begin_stop()
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def start_all(nodes: Sequence[Serve]) -> None:
    """Start them side by side and wait until all are ready."""
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_until_ready()


def free_port() -> int:
    """Below the range that the system gives to outgoing connections, which could take it in between."""
    return free_ports(PORTS, 1)[0]
