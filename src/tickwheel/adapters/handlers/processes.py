"""Processes for handlers that may crash, eat all memory, or hold the interpreter: as many as there are cores.

A child is started when work waits and none is idle, makes one call at a time, and is used again. It is a fresh
interpreter that imports what it needs: nothing is forked (threads hold locks) and nothing is pickled. Whatever
kills it, its socket ends: the attempt that it was making is LOST, with what is known of the cause, and the next
call gets another child. Three workers lost in a row put a run into the dead-letter queue, so a call that kills
whoever makes it stops by itself while all others go on.
"""

import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from tickwheel.adapters.handlers.frames import ANSWER_LIMIT_BYTES, LENGTH, Call, Ended, decode_answer, frame
from tickwheel.adapters.handlers.memory_limit import oom_kills
from tickwheel.adapters.handlers.outcomes import failure
from tickwheel.domain.outcome import Outcome, OutcomeClass, ProgressNote

MODULE: Final = "tickwheel.adapters.handlers.child"

Item = TypeVar("Item")


class _Child:
    """A process and the line to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process, self._reader, self._writer = process, reader, writer
        self.oom_kills = oom_kills()

    @property
    def lives(self) -> bool:
        return self.process.returncode is None

    def kill(self) -> None:
        if self.lives:
            self.process.kill()

    async def ask(self, call: Call, say: Callable[[ProgressNote], None]) -> Ended | None:
        """How the call ended; None: the process is gone."""
        try:
            self._writer.write(frame(call))
            await self._writer.drain()
            while True:
                [size] = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                if size > ANSWER_LIMIT_BYTES:
                    raise ValueError(f"an answer of {size} bytes")
                answer = decode_answer(await self._reader.readexactly(size))
                if isinstance(answer, Ended):
                    return answer
                say(answer.note)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def end(self) -> int:
        """Close the line, which ends the process if nothing else has; gives its status."""
        self._writer.close()
        status = await self.process.wait()
        with suppress(ConnectionError):  # it was gone before the line was
            await self._writer.wait_closed()
        return status


class ChildProcesses(Generic[Item]):
    """`begin(item)` gives the call, or None to leave it out; `end` and `say` get what becomes of it."""

    def __init__(
        self,
        *,
        limit: int,
        begin: Callable[[Item], Call | None],
        end: Callable[[Item, Outcome], None],
        say: Callable[[Item, ProgressNote], None],
    ) -> None:
        self._limit, self._begin, self._end, self._say = limit, begin, end, say
        self._queue: deque[Item] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # one for each process
        self._idle: list[asyncio.Future[None]] = []
        self._busy: dict[int, _Child] = {}  # by identity of the item
        self._closing = False

    def submit(self, item: Item) -> None:
        """Call it in some process soon. Loop thread only."""
        self._queue.append(item)
        if self._idle:
            self._wake_one()
        elif len(self._tasks) < self._limit:
            task = asyncio.get_running_loop().create_task(self._serve())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def kill(self, item: Item) -> None:
        """End the process that is making this call, if one is; the end is told as LOST."""
        child = self._busy.get(id(item))
        if child is not None:
            child.kill()

    async def aclose(self) -> None:
        """End all processes; a call that one still makes is told as LOST."""
        self._closing = True
        self._queue.clear()
        for child in self._busy.values():
            child.kill()
        while self._idle:
            self._wake_one()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _wake_one(self) -> None:
        waiting = self._idle.pop()
        if not waiting.done():
            waiting.set_result(None)

    async def _serve(self) -> None:
        """The life of one place for a process: it gets another when it dies."""
        child: _Child | None = None
        try:
            while not self._closing:
                if not self._queue:
                    waiting = asyncio.get_running_loop().create_future()
                    self._idle.append(waiting)
                    await waiting
                    continue
                if child is not None and not child.lives:  # it died while it was idle: no attempt is to blame
                    await child.end()
                    child = None
                try:
                    child = child or await _start()
                except Exception as error:  # whatever keeps a process from starting, what waits has to end
                    self._give_up(error)
                    continue
                if self._queue and not self._closing:  # another may have been quicker
                    child = await self._call(self._queue.popleft(), child)
        finally:
            if child is not None:
                await child.end()

    async def _call(self, item: Item, child: _Child) -> _Child | None:
        """Make one call; gives the process if it goes on."""
        call = self._begin(item)
        if call is None:
            return child
        self._busy[id(item)] = child
        try:
            ended = await child.ask(call, lambda note: self._say(item, note))
        except Exception:  # it says what nobody understands: whatever it is, the attempt has to end
            child.kill()
            ended = None
        finally:
            del self._busy[id(item)]
        if ended is not None and not ended.worn:
            self._end(item, ended.outcome)
            return child
        status = await child.end()
        self._end(item, _loss(child, status) if ended is None else ended.outcome)
        return None

    def _give_up(self, error: Exception) -> None:
        """No process can be started: what waits is tried again as the retry policy says."""
        if self._queue:
            item = self._queue.popleft()
            if self._begin(item) is not None:
                self._end(item, failure(OutcomeClass.RETRYABLE, f"no process can be started: {error}"))


async def _start() -> _Child:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", MODULE, str(theirs.fileno()), paths),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        reader, writer = await asyncio.open_connection(sock=ours)
    except BaseException:
        ours.close()
        raise
    return _Child(process, reader, writer)


def _loss(child: _Child, status: int) -> Outcome:
    if status >= 0:
        return failure(OutcomeClass.LOST, f"the handler's process ended with status {status} in the middle of it")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if -status == signal.SIGKILL and oom_kills() > child.oom_kills:
        return failure(OutcomeClass.LOST, f"out of memory: the kernel killed the handler's process ({name})")
    return failure(OutcomeClass.LOST, f"the handler's process was killed by {name}")
