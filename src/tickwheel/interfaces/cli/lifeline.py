"""The line between the parent of several processes and each of them: a pair of connected sockets.

Down it goes the order (who you are, your settings), once; up come `Ready`, or `Failed` with the reason. Settings
travel here because they hold tokens, and command lines can be read by others on the machine.

Then the line is silent, and its end is the news: however the parent ends, the kernel closes its side.
"""

import socket
import threading
from collections.abc import Callable

import msgspec

from tickwheel.config import Settings


class Order(msgspec.Struct, frozen=True):
    """What a process is told: its number (from 1), its node's name, its own port (0: a free one), the settings."""

    number: int
    name: str
    own_port: int
    settings: Settings


class Ready(msgspec.Struct, frozen=True, tag=True):
    """It fires, and takes requests on the shared port and on its own."""

    own_port: int
    is_open: bool = False  # nobody is asked for a token


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It ends, and why."""

    lines: list[str]
    exit_code: int


Word = Ready | Failed


class Lifeline:
    """The end that a child holds, by the descriptor that it was started with.

    Raises `EOFError` when the parent is gone before it has said anything.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # what a handler starts must not keep the line open
        with self._socket.makefile("rb", buffering=0) as lines:
            line = lines.readline()
        if not line:
            raise EOFError
        self.order = msgspec.json.decode(line, type=Order)

    def tell(self, word: Word) -> None:
        """Up to the parent; nothing when it is gone."""
        try:
            self._socket.sendall(msgspec.json.encode(word) + b"\n")
        except OSError:
            return

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call that in a thread of its own when the parent is gone."""

        def wait() -> None:
            try:
                while self._socket.recv(1):
                    pass
            except OSError:
                pass
            on_end()

        threading.Thread(target=wait, name="tickwheel-lifeline", daemon=True).start()
