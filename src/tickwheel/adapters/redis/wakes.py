"""Who waits for hints hears of publications over Pub/Sub: a lossy hint, so nobody waits for it alone.

One connection per process, made when somebody waits, and kept. When it ends, everybody who waits is woken to look.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.adapters.redis.address import Place, RedisAddress
from tickwheel.adapters.redis.wire import Wire

MOST_CHANNELS: Final = 1_000
"""With more, the connection is made anew for those that somebody waits for."""


class Wakes:
    """Subscriptions to channels, each kept for the next time."""

    def __init__(self, address: RedisAddress, any_place: Callable[[], Place]) -> None:
        self._address, self._any_place = address, any_place
        self._wire: Wire | None = None
        self._heard: set[bytes] = set()  # channels that the connection listens to
        self._events: dict[bytes, list[asyncio.Event]] = {}

    async def listen(self, channels: Sequence[bytes]) -> asyncio.Event:
        """What is set by a publication from now on; `forget` it.

        By none if the server that would tell of them can't be reached: it may be the one master of a cluster
        that is dead, and whoever waits looks now and then all the same.
        """
        event = asyncio.Event()
        for channel in channels:
            self._events.setdefault(channel, []).append(event)
        try:
            await self._subscribe()
        except ConnectionError:
            event.clear()  # else whoever waits would ask again at once, and again
        except BaseException:
            self.forget(channels, event)
            raise
        return event

    def forget(self, channels: Sequence[bytes], event: asyncio.Event) -> None:
        for channel in channels:
            events = self._events[channel]
            events.remove(event)
            if not events:
                del self._events[channel]

    async def aclose(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def _subscribe(self) -> None:
        if len(self._heard) > MOST_CHANNELS:
            await self.aclose()
        wire = self._wire
        if wire is None:
            wire = self._wire = Wire(self._address, self._any_place(), on_message=lambda m: self._hear(wire, m))
            self._heard = set()
        wanted = [channel for channel in self._events if channel not in self._heard]
        if wanted:
            try:
                await wire.ask([("SUBSCRIBE", channel) for channel in wanted])
            except ConnectionError:
                if self._wire is wire:  # who was listening already is woken by the end of the connection
                    self._wire = None
                raise
            if self._wire is wire:
                self._heard.update(wanted)  # only now: whoever comes before asks for it too

    def _hear(self, wire: Wire | None, message: list[Any] | None) -> None:
        if message is None:  # the connection has ended
            if self._wire is wire:
                self._wire = None
            for events in self._events.values():
                for event in events:
                    event.set()
        else:
            for event in self._events.get(message[1], ()):
                event.set()
