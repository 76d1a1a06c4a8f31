"""A process's connection to the model database: how calls travel, and what may befall them on their way."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.testing.model.database import ModelDatabase
from tickwheel.testing.model.process import Process
from tickwheel.testing.model.row_locks import Wish
from tickwheel.testing.model.weather import Fate, Weather

L = TypeVar("L")
T = TypeVar("T")

UNREACHABLE_MS: Final = 1_000
"""How long a call takes to fail when nothing comes back."""
PATIENCE_MS: Final = 2_000
"""A commit that takes longer is given up by the client; what became of it is unknown."""
NO_LIMIT_MS: Final = 1 << 40


class Connection:
    """`session` is another number after each loss."""

    def __init__(self, database: ModelDatabase, process: Process, weather: Weather) -> None:
        self._database, self._process, self._weather = database, process, weather
        self._clock = database.clock
        self.session = database.tables.new_session()
        self._crash_count = database.crash_count

    async def read(self, verb: str, read: Callable[[], T]) -> T:
        """What `read` sees on the server, some time after the call and some time before the answer."""
        try:
            fate = await self._arrive(verb)
            value = read()
            await self._travel(verb)
            if fate is not Fate.FINE or not self._is_connected():
                self._lose_session()
                raise StoreUnavailable(f"the answer to {verb} was lost")
            return value
        finally:
            if self._process.is_stopped:
                await self._process.pass_gate()

    async def write(
        self,
        verb: str,
        apply: Callable[[L, int], T],
        *,
        look: Callable[[], L],
        wishes: Sequence[Wish] = (),
        limit_ms: int = NO_LIMIT_MS,
    ) -> T:
        """A transaction, see `ModelDatabase.transact`."""
        try:
            fate = await self._arrive(verb)
            open_ms = self._weather.open_ms(verb)
            aborts = fate is Fate.ABORTED or open_ms > limit_ms
            transaction = self._database.transact(
                wishes=wishes, open_ms=min(open_ms, limit_ms), aborts=aborts, look=look, apply=apply
            )
            answer = await self._follow(transaction, open_ms)
            await self._travel(verb)
            if fate is Fate.ANSWER_LOST or not self._is_connected():
                self._lose_session()
                raise OutcomeUnknown(f"the answer to {verb} was lost")
            return answer
        finally:
            if self._process.is_stopped:
                await self._process.pass_gate()

    async def _follow(self, transaction: Coroutine[Any, Any, T], open_ms: int) -> T:
        if not open_ms:
            return await transaction
        serving = self._database.serve(transaction)
        if open_ms <= PATIENCE_MS:
            return await asyncio.shield(serving)
        await self._clock.sleep_ms(PATIENCE_MS)
        self._lose_session()
        raise OutcomeUnknown("the commit took too long")

    async def _arrive(self, verb: str) -> Fate:
        """The call is at the server, or it failed on its way."""
        if not self._process.alive:
            raise StoreUnavailable("a process that is gone asks for nothing")
        if not self._process.reaches_store:
            await self._clock.sleep_ms(UNREACHABLE_MS)
            self._lose_session()
            raise StoreUnavailable("the store can't be reached")
        fate = self._weather.fate(verb)
        await self._clock.sleep_ms(self._weather.way_ms(verb))
        if self._crash_count != self._database.crash_count:
            self._lose_session()
        if fate is Fate.REFUSED or not self._database.is_up or not self._process.reaches_store:
            self._lose_session()
            raise StoreUnavailable(f"{verb} was refused")
        return fate

    async def _travel(self, verb: str) -> None:
        """The way back. (A call lets others go first in any case, so an answer that is quick need not.)"""
        way_ms = self._weather.way_ms(verb)
        if way_ms:
            await self._clock.sleep_ms(way_ms)

    def _is_connected(self) -> bool:
        return self._process.reaches_store and self._crash_count == self._database.crash_count

    def _lose_session(self) -> None:
        self.session = self._database.tables.new_session()
        self._crash_count = self._database.crash_count
