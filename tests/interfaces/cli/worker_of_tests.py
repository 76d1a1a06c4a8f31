"""A real `tickwheel worker`, stopped or killed by its pid."""

import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from .server_process import PATIENCE_S, TICKWHEEL, clean_environment


class WorkerOfTests:
    """Started by the constructor. Use as a context manager."""

    def __init__(self, *arguments: str, folder: Path, token: str = "") -> None:
        self.lines: list[str] = []
        self._grown = threading.Condition()
        environment = clean_environment() | ({"TICKWHEEL_TOKEN": token} if token else {})
        self.process = subprocess.Popen(
            [*TICKWHEEL, "worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=environment,
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

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> int:
        """SIGTERM, and wait; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)
