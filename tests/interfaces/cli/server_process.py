"""A real `tickwheel dev`, `serve` or `worker` (servers on a free loopback port), stopped by its pid."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tickwheel import Client

from ...planted import watch

PATIENCE_S = 45
"""How long a busy machine may take for what is a moment on a quiet one; less than the 60 s of a test."""

TICKWHEEL = (sys.executable, "-m", "tickwheel")
ADDRESS = re.compile(r"running at (https?://127\.0\.0\.1:\d+)")


def clean_environment() -> dict[str, str]:
    """Ours, without settings that the person who runs the tests may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TICKWHEEL_")}


class CommandProcess:
    """A `tickwheel ...` that goes on until it is stopped. Started by the constructor; use as a context manager."""

    def __init__(self, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._grown = threading.Condition()
        self.process = subprocess.Popen(
            [*TICKWHEEL, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=clean_environment() | dict(environment or {}),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        watch("\n".join(self.lines), "what the process printed")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._grown:
                self.lines.append(line.rstrip("\n"))
                self._grown.notify_all()

    def wait_for_line(self, text: str, *, count: int = 1, within_s: float = PATIENCE_S) -> str:
        """The line that holds the text for the `count`th time."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._grown:
            self._grown.wait_for(lambda: len(found()) >= count or self.process.poll() is not None, within_s)
            assert len(found()) >= count, f"{text!r} is not {count} times in {self.lines}"
            return found()[count - 1]

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, *, within_s: float = PATIENCE_S) -> int:
        """Its exit code; fails when it is still running after that."""
        return self.process.wait(within_s)


class ServerProcess(CommandProcess):
    """A `tickwheel dev` or `serve`; `url` is there once it listens."""

    def __init__(self, *arguments: str, folder: Path, command: str = "dev") -> None:
        super().__init__(command, "--port", "0", *arguments, folder=folder)
        found = ADDRESS.search(self.wait_for_line("running at"))
        assert found is not None
        self.url = found[1]
        self.client = Client(self.url)

    def request(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        """The JSON of the answer, which is no refusal."""
        split = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(split.hostname), split.port, timeout=PATIENCE_S)
        try:
            whole = {"content-type": "application/json", **headers}
            connection.request(method, path, json.dumps(body), whole)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, said
        return json.loads(said)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.client.close()


def with_handlers(folder: Path) -> Path:
    """The folder, with the module `handlers_of_tests` in it."""
    shutil.copy(Path(__file__).with_name("handlers_of_tests.py"), folder)
    return folder


def run_cli(*arguments: str, url: str | None = None, stdin: str = "", folder: Path | None = None) -> Any:
    """A finished `tickwheel ...` in a process of its own."""
    environment = clean_environment()
    if url is not None:
        environment["TICKWHEEL_URL"] = url
    return subprocess.run(
        [*TICKWHEEL, *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        env=environment,
        cwd=folder,
        timeout=PATIENCE_S,
        check=False,
    )


def json_of(finished: Any) -> Any:
    """What a command that worked printed with --json."""
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def wait_until(probe: Any, *, why: str, within_s: float = PATIENCE_S) -> Any:
    """The first true answer of the probe."""
    until = time.monotonic() + within_s
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < until, f"not within {within_s} s: {why}"
        time.sleep(0.05)
