"""`tickwheel worker` as a child process: started, killed, frozen, stopped, started again."""

import sys
from pathlib import Path

from .serve import Serve

READY_LINE = "takes work from"


class RemoteWorker(Serve):
    """One worker; `flags` say where its work comes from and what it does."""

    def __init__(self, folder: Path, *flags: str, name: str) -> None:
        super().__init__(folder, name=name)
        self._command = [sys.executable, "-m", "tickwheel", "worker", "--allow-loopback", "--name", name, *flags]
        self._told = 0

    def start(self) -> None:
        self._told = self._count()
        super().start()

    def answers_ready(self) -> bool:
        """Whether the process of the latest start has said so."""
        return self._count() > self._told

    def _count(self) -> int:
        return self.log.read_text(errors="replace").count(READY_LINE) if self.log.exists() else 0
