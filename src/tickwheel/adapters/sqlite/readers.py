"""Threads that only read, each with its own connection, so that no read waits for the writer."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

import apsw

from tickwheel.adapters.sqlite.connection import Session, open_reader
from tickwheel.adapters.sqlite.delivery import Answer, deliver
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.domain.errors import StoreUnavailable

T = TypeVar("T")
_Request: TypeAlias = "tuple[Callable[[Session], Any], bool, asyncio.Future[Any]] | None"


class Reader:
    """One reading thread; `read` from any event loop, `close` once."""

    def __init__(self, path: Path, name: str) -> None:
        self._session = Session(open_reader(path))
        self._queue: SimpleQueue[_Request] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def read(self, look: Callable[[Session], T], *, snapshot: bool = False) -> T:
        """Run `look` in the thread. `snapshot`: all its statements see one state of the database."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put((look, snapshot, future))
        return await future

    def close(self) -> None:
        """Answer what is queued, end the thread and close the connection. Blocks."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (request := self._queue.get()) is not None:
            look, snapshot, future = request
            deliver([self._answer(look, snapshot, future)])
        self._session.connection.close()

    def _answer(self, look: Callable[[Session], Any], snapshot: bool, future: "asyncio.Future[Any]") -> Answer:
        try:
            if not snapshot:
                return Answer(future, look(self._session), None)
            self._session.run("BEGIN")
            try:
                return Answer(future, look(self._session), None)
            finally:
                self._session.run("ROLLBACK")
        except apsw.Error as error:
            return Answer(future, None, translate(error))
        except Exception as error:  # the caller's own, to be raised where it waits
            return Answer(future, None, error)
