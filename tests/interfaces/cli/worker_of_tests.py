"""A real `tickwheel worker`, stopped or killed by its pid."""

from pathlib import Path

from .server_process import CommandProcess


class WorkerOfTests(CommandProcess):
    """Started by the constructor. Use as a context manager."""

    def __init__(self, *arguments: str, folder: Path, token: str = "") -> None:
        super().__init__(
            "worker", *arguments, folder=folder, environment={"TICKWHEEL_TOKEN": token} if token else {}
        )

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> int:
        """SIGTERM, and wait; its exit code."""
        self.terminate()
        return self.exit_code()
