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
from tickwheel.adapters.handlers.frames import LENGTH, Answer, Call, Ended, Said, decode_call, frame
from tickwheel.adapters.handlers.outcomes import failure, outcome_of_error, outcome_of_return, told
from tickwheel.adapters.handlers.registry import Registered
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.outcome import Outcome, OutcomeClass, clip_text

SAY_EVERY_MS: Final = 100
"""What a handler says more often is told with what it says next, or not at all."""


class _Context(HandlerContext):
    """Tells the parent."""

    __slots__ = ("_clock", "_deadline_ms", "_line", "_said_ms")

    def __init__(self, call: Call, line: "_Line", clock: SystemClock) -> None:
        super().__init__(call.work)
        self._deadline_ms = call.deadline_ms
        self._line, self._clock = line, clock
        self._said_ms = -SAY_EVERY_MS

    @property
    def deadline_ms(self) -> int | None:
        return self._deadline_ms

    def _tell(self) -> None:
        now_ms = self._clock.monotonic_ms()
        finished = self._beat is not None and self._beat.progress == 1.0
        if self._beat is not None and (finished or now_ms - self._said_ms >= SAY_EVERY_MS):
            self._said_ms = now_ms
            self._line.send(Said(self._beat))


class _Line:
    """The socket. What comes in is read by a thread of its own, so that the parent's end is seen at any time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sending = threading.Lock()
        threading.Thread(target=self._read, name="tickwheel-parent", daemon=True).start()

    def next_call(self) -> bytes:
        return self._calls.get()

    def send(self, answer: Answer) -> None:
        with self._sending:
            self._connection.sendall(frame(answer))

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        while True:
            head = stream.read(LENGTH.size)
            if len(head) < LENGTH.size:
                os._exit(0)  # nobody is interested any more
            self._calls.put(stream.read(LENGTH.unpack(head)[0]))


def serve(connection: socket.socket) -> NoReturn:
    """Make calls until the parent ends the line."""
    line, clock = _Line(connection), SystemClock()
    handlers: dict[tuple[str, str], Registered] = {}
    while True:
        call = decode_call(line.next_call())
        try:
            outcome, worn = _make(call, handlers, line, clock), False
        except MemoryError as error:
            outcome, worn = failure(OutcomeClass.LOST, clip_text(f"out of memory ({told(error)})")), True
        line.send(Ended(outcome, worn))
        if worn:
            os._exit(0)


def _make(call: Call, handlers: dict[tuple[str, str], Registered], line: _Line, clock: SystemClock) -> Outcome:
    try:
        handler = handlers.get((call.module, call.qualname)) or _load(call)
        handlers[call.module, call.qualname] = handler
    except MemoryError:
        raise
    except BaseException as error:  # whatever the user's module does when it is imported
        return failure(OutcomeClass.RETRYABLE, clip_text(f"{call.module} can't be imported: {told(error)}"))
    try:
        arguments = handler.arguments(call.work.payload, _Context(call, line, clock))
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
