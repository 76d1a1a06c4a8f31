"""One crash test: server, sink, load, killer, and then the checker."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .api import Api
from .checker import Verdict, check
from .load import Load

START_LIMIT_S = 30
SETTLE_LIMIT_S = 90
OPEN_STATES = ("SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING")


class Server:
    """`tickwheel serve` on one port and one data folder, killed and started again; it runs in that folder."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.port = _free_port()
        self._folder, self._flags = folder, flags
        self._log = (folder / "server.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tickwheel", "serve", "--no-auth", "--allow-loopback"]
        command += ["--port", str(self.port), "--data", str(self._folder / "data"), *self._flags]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, start_new_session=True, cwd=self._folder
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                said = Path(self._log.name).read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"the server ended with {self._process.returncode}:\n{said}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the server did not listen in time")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()


def crash_test(
    folder: Path, *, jobs: int, kills: int, seconds: float, seed: int, tell: Callable[[str], object]
) -> Verdict:
    """Run it and give the verdict; `folder` keeps the data and the logs."""
    sink_log = folder / "sink.jsonl"
    sink = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("sink.py")), str(sink_log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    server = Server(folder)
    try:
        assert sink.stdout is not None
        load = Load(server.port, int(sink.stdout.readline()), jobs, seconds, seed)
        server.start()
        server.wait_until_ready()
        loading = threading.Thread(target=load.run)
        loading.start()
        _kill_and_start(server, kills, seconds, seed, tell)
        loading.join()
        tell(f"{len(load.plan.kinds)} jobs acknowledged, {len(load.plan.cancelled_ms)} cancelled; settling")
        _stop_crons(server.port, load)
        _settle(server.port)
        with Api(server.port) as api:
            return check(api, load.plan, sink_log)
    finally:
        server.stop()
        sink.kill()
        sink.wait()
        if sink.stdout is not None:
            sink.stdout.close()


def _kill_and_start(server: Server, kills: int, seconds: float, seed: int, tell: Callable[[str], object]) -> None:
    rng = random.Random(seed)
    for number in range(kills):
        time.sleep(rng.random() * 2 * max(0.2, seconds / kills - 0.7))
        server.kill()
        tell(f"kill {number + 1} of {kills}")
        server.start()
        server.wait_until_ready()


def _stop_crons(port: int, load: Load) -> None:
    with Api(port) as api:
        for job_id in load.plan.crons:
            status, answer = api.call("POST", f"/v1/jobs/{job_id}/pause")
            assert status == 200, answer


def _settle(port: int) -> None:
    """Wait until no run is open."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    with Api(port) as api:
        while time.monotonic() < deadline:
            left = [job for state in OPEN_STATES for job in api.pages(f"/v1/jobs?status={state}", "jobs")]
            if not left:
                return
            time.sleep(0.3)
    # What is still open then is reported by the checker as lost.


def _free_port() -> int:
    rng = random.SystemRandom()
    while True:
        port = rng.randint(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
