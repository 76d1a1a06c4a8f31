"""What servers for tests have in common: programs that are found or installed, free ports, processes to break."""

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self


class Opened(ABC):
    """Opened by `with`, closed at its end, and also where opening fails."""

    @abstractmethod
    def open(self) -> None:
        """Start it and wait until it can be used."""

    @abstractmethod
    def close(self) -> None:
        """End it without ceremony and remove what it wrote."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Child:
    """One process, to break as you like."""

    process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def freeze(self) -> None:
        """It hangs: connections are still accepted, nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def found_or_installed(found: Callable[[], str | None], *packages: str) -> str | None:
    """What `found` gives; root on a Debian machine installs these packages where it gives nothing."""
    if found() is None and may_install():
        with one_at_a_time():
            if found() is None:
                install(*packages)
    return found()


def may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str) -> None:
    """Within `one_at_a_time`. Whether it worked is seen by looking for what should be there."""
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(
            ["apt-get", "-q", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},  # starts no service
            capture_output=True,
            check=False,
        )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Parallel test processes take turns, as apt wants it."""
    with (Path(tempfile.gettempdir()) / "tickwheel-apt.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free_ports(among: Sequence[int], count: int, *, beside: Collection[int] = ()) -> list[int]:
    """Free a moment ago, and so are the ports that lie `beside` each by these offsets."""
    drawn = random.SystemRandom()  # tests in parallel may have one seed
    ports: list[int] = []
    used: set[int] = set()
    while len(ports) < count:
        port = drawn.choice(among)
        wanted = {port, *(port + offset for offset in beside)}
        if not wanted & used and all(map(_is_free, wanted)):
            ports.append(port)
            used |= wanted
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
