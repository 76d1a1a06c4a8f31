"""One process of several, as its parent sees it: start it, hear what it says, see it end, start it again."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.lifeline import Failed, Order, Ready, Word
from tickwheel.interfaces.cli.restarts import Ended, Reason

MODULE: Final = "tickwheel.interfaces.cli.child"
_CODES: Final = {code.value: code for code in ExitCode}


class Child:
    """At most one process at a time; `run` returns when it has ended."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.own_port = order.own_port
        self.is_open = False
        """Stays the same when the process is started again, also where the first one took a free one."""
        self.ready = False
        self.ended_badly = False
        """Whether the process ended in another way than it should when it was told to."""
        self._process: asyncio.subprocess.Process | None = None
        self._wanted_end: signal.Signals | None = None

    async def run(self, on_ready: Callable[["Child"], None]) -> Ended:
        """Start a process and wait for its end."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await _start(theirs.fileno())
        if self._wanted_end is not None:  # while it was being started
            self._signal(self._wanted_end)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        reason: Reason | None = None
        was_ready = False
        try:
            order = msgspec.structs.replace(self.order, own_port=self.own_port)
            writer.write(msgspec.json.encode(order) + b"\n")
            while line := await _line(reader):
                match msgspec.json.decode(line, type=Word):
                    case Ready(own_port=port, is_open=is_open):
                        self.is_open = is_open
                        self.own_port, self.ready, was_ready = port, True, True
                        on_ready(self)
                    case Failed(lines=lines, exit_code=number):
                        reason = Reason(lines, _CODES[number])
            code = await self._process.wait()
        finally:
            self.ready = False
            writer.transport.abort()
        self.ended_badly = self._wanted_end is not None and code not in (0, -signal.SIGTERM)
        return Ended(
            reason.lines[0] if reason is not None else _cause(code),
            loop.time() - began_s,
            code == 0 and was_ready,
            reason,
        )

    def terminate(self) -> None:
        """Let it drain, and start nothing without ending it."""
        self._wanted_end = signal.SIGTERM
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._wanted_end = signal.SIGKILL
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


async def _start(descriptor: int) -> asyncio.subprocess.Process:
    # A command of an installed package finds no modules in the folder where it is started; `-m` would.
    isolated = () if _in_path() else ("-P",)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *isolated,
        "-m",
        MODULE,
        str(descriptor),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,
    )


def _in_path() -> bool:
    try:
        return sys.path[:1] in ([""], [os.getcwd()])
    except OSError:  # the folder is gone
        return False


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except OSError:  # it was killed with something unread
        return b""


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
