"""The process that calls handlers of its parent, one after the other: `python -m ... FD PATH`.

FD is the number of its socket. It ends when the parent closes the socket, or dies. Signals that mean "stop" to the
parent are none of its business: the parent drains, and kills it when the time is over.
"""

import asyncio
import importlib
import os
import queue
import signal
import socket
import sys
import threading
from typing import Final, NoReturn

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.frames import LENGTH, Call, Ended, Said, decode_call, frame
from tickwheel.adapters.handlers.outcomes import failure, outcome_of_error, outcome_of_return, told
from tickwheel.adapters.handlers.registry import Registered
from tickwheel.domain.outcome import Outcome, OutcomeClass, ProgressNote, clip_text

SAY_EVERY_S: Final = 0.1
"""What a handler says more often is told with what it says next."""


class _Context(HandlerContext):
    """Tells the parent."""

    __slots__ = ("_deadline_ms", "_line")

    def __init__(self, call: Call, line: "_Line") -> None:
        super().__init__(call.work)
        self._deadline_ms, self._line = call.deadline_ms, line

    @property
    def deadline_ms(self) -> int | None:
        return self._deadline_ms

    def _tell(self) -> None:
        self._line.say(self._beat)


class _Line:
    """The socket. A thread reads it, so that the parent's end is seen at any time; another one tells it things."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._said: ProgressNote | None = None
        self._has_said = threading.Event()
        os.register_at_fork(after_in_child=self._hang_up)
        for work in (self._read, self._tell):
            threading.Thread(target=work, name="tickwheel-parent", daemon=True).start()

    def _hang_up(self) -> None:
        """In a copy that a handler makes: it must say nothing, and not keep the parent from seeing the end."""
        os.close(self._connection.detach())

    def next_call(self) -> bytes:
        return self._calls.get()

    def say(self, note: ProgressNote) -> None:
        """Soon; the latest counts."""
        self._said = note
        self._has_said.set()

    def end(self, ended: Ended) -> None:
        """The call is over; what was said last goes before it."""
        with self._sending:
            self._send_said()
            self._connection.sendall(frame(ended))

    def _tell(self) -> None:
        pause = threading.Event()  # never set: waiting for it is a pause
        while True:
            self._has_said.wait()
            with self._sending:
                self._send_said()
            pause.wait(SAY_EVERY_S)

    def _send_said(self) -> None:
        self._has_said.clear()
        said, self._said = self._said, None
        if said is not None:
            self._connection.sendall(frame(Said(said)))

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        while True:
            head = stream.read(LENGTH.size)
            if len(head) < LENGTH.size:
                os._exit(0)  # nobody is interested any more
            self._calls.put(stream.read(LENGTH.unpack(head)[0]))


def serve(connection: socket.socket) -> NoReturn:
    """Make calls until the parent ends the line."""
    line = _Line(connection)
    handlers: dict[tuple[str, str], Registered] = {}
    own = os.getpid()
    while True:
        call = decode_call(line.next_call())
        try:
            outcome, worn = _make(call, handlers, line), False
        except MemoryError as error:
            outcome, worn = failure(OutcomeClass.LOST, clip_text(f"out of memory ({told(error)})")), True
        if os.getpid() != own:  # a copy that the handler made by a fork, and that came back from it
            os._exit(0)
        line.end(Ended(outcome, worn))
        if worn:
            os._exit(0)


def _make(call: Call, handlers: dict[tuple[str, str], Registered], line: _Line) -> Outcome:
    try:
        handler = handlers.get((call.module, call.qualname)) or _load(call)
        handlers[call.module, call.qualname] = handler
    except MemoryError:
        raise
    except BaseException as error:  # whatever the user's module does when it is imported
        return failure(OutcomeClass.RETRYABLE, clip_text(f"{call.module} can't be imported: {told(error)}"))
    try:
        arguments = handler.arguments(call.work.payload, _Context(call, line))
        made = handler.function(*arguments)
        return outcome_of_return(asyncio.run(made) if handler.is_async else made)
    except MemoryError:
        raise
    except BaseException as error:  # whatever a handler raises ends its attempt, not the process
        return outcome_of_error(error)


def _load(call: Call) -> Registered:
    found: object = importlib.import_module(call.module)
    for name in call.qualname.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{call.qualname} is no function")
    return Registered(call.name, found)


def _stay(number: int, stack: object) -> None:
    """The parent decides. (A handler of ours, not "ignore": programs that the user starts inherit that.)"""


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stay)
    sys.path[:] = sys.argv[2].split(os.pathsep)
    serve(socket.socket(fileno=int(sys.argv[1])))
