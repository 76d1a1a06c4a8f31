"""One connection to one server, shared by all who call: commands go out as they come, answers come back in order.

So callers of the same moment share a round trip without waiting for each other, and a server has one connection
per process. **Nothing waits for ever**: a caller waits `call_seconds` at most, connecting included; then the
connection is cut, and everybody on it gets a `ConnectionError`. The next call makes a new one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import RedisError, ResponseError

from tickwheel.adapters.redis.address import Place, RedisAddress

CALL_SECONDS: Final = 0.8
CONNECT_SECONDS: Final = 0.5
READER_NAME: Final = "redis reader"
"""Of the task that a connection has as long as it is open."""

Command: TypeAlias = tuple[bytes | str | int, ...]
Answer: TypeAlias = Any
"""What the server says to one command; a `ResponseError` where it refuses."""


class Wire:
    """A connection, made when it is needed. `on_message` hears what comes unasked (Pub/Sub), None at the end."""

    def __init__(
        self,
        address: RedisAddress,
        place: Place,
        *,
        call_seconds: float = CALL_SECONDS,
        on_message: Callable[[list[Any] | None], None] | None = None,
    ) -> None:
        self._address, self.place, self._call_seconds = address, place, call_seconds
        self._on_message = on_message
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[Answer]] = deque()

    async def ask(self, commands: Sequence[Command], *, deadline: float | None = None) -> list[Answer]:
        """The answers, in order. Raises `ConnectionError`; what was asked may have been done all the same.

        `deadline` is by the event loop's clock; what isn't answered by then ends the connection.
        """
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + self._call_seconds
        connection = self._connection or await self._connected(deadline - loop.time())
        answers: list[asyncio.Future[Answer]] = [loop.create_future() for _ in commands]
        self._waiting.extend(answers)
        limit = loop.call_at(deadline, self.cut, "no answer in time")
        try:
            # Written before anything is awaited, so the order of answers is that of the futures.
            await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            return [await answer for answer in answers]
        except (RedisError, OSError) as error:
            if self._connection is connection:
                self.cut(str(error))
            for answer in answers:
                if answer.done() and not answer.cancelled():
                    answer.exception()  # seen
            raise self._failure(error) from None
        finally:
            limit.cancel()
            for answer in answers:
                answer.cancel()

    def cut(self, why: str) -> None:
        """Give the connection up: whoever waits on it fails at once."""
        reading, self._reading, self._connection = self._reading, None, None
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            if not answer.done():
                answer.set_exception(ConnectionError(f"{self.place}: {why}"))
                answer.exception()  # whoever waited may be gone
        if reading is not None:
            self._ending.add(reading)
            reading.add_done_callback(self._ending.discard)
            reading.cancel()

    async def aclose(self) -> None:
        self.cut("closed")
        if self._connecting is not None:
            self._connecting.cancel()
            self._ending.add(self._connecting)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _connected(self, seconds: float) -> Connection:
        """Callers of the same moment share one attempt."""
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = self._connecting = asyncio.create_task(self._connect())
            connecting.add_done_callback(see)  # whoever waited may be gone
        done, _ = await asyncio.wait({connecting}, timeout=min(seconds, CONNECT_SECONDS))
        if not done:
            connecting.cancel()
            raise ConnectionError(f"{self.place}: no connection in time")
        try:
            connecting.result()
        except (RedisError, OSError) as error:
            raise self._failure(error) from None
        except asyncio.CancelledError:
            raise ConnectionError(f"{self.place}: the connection was given up") from None
        if self._connection is None:
            raise ConnectionError(f"{self.place}: the connection ended at once")
        return self._connection

    async def _connect(self) -> None:
        kind = SSLConnection if self._address.tls else Connection
        connection = kind(
            host=self.place.host,
            port=self.place.port,
            socket_timeout=None,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_keepalive=True,
            client_name="tickwheel",
            protocol=2,
            **self._address.options,
        )
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # as redis-py has it
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._connection = connection
        self._reading = asyncio.create_task(self._read(connection), name=READER_NAME)

    async def _read(self, connection: Connection) -> None:
        try:
            while True:
                try:
                    answer = await connection.read_response(disable_decoding=True, disconnect_on_error=False)
                except ResponseError as error:
                    answer = error
                if self._on_message is not None and isinstance(answer, list) and answer[0] == b"message":
                    self._on_message(answer)
                elif self._waiting:
                    future = self._waiting.popleft()
                    if not future.done():  # else whoever asked has gone
                        future.set_result(answer)
        except Exception as error:  # the end, or what it sends is not RESP
            if self._connection is connection:
                self._reading = None
                self.cut(str(error))
        finally:
            await connection.disconnect(nowait=True)
            if self._on_message is not None:
                self._on_message(None)

    def _failure(self, error: Exception) -> ConnectionError:
        if isinstance(error, ConnectionError):
            return error
        text = str(error) or type(error).__name__
        if self._address.password:
            text = text.replace(self._address.password, "***")
        return ConnectionError(text if str(self.place) in text else f"{self.place}: {text}")


def see(task: "asyncio.Task[None]") -> None:
    """Look at how it ended, so that nobody complains that nobody did."""
    if not task.cancelled():
        task.exception()
