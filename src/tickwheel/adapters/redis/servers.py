"""Calls of scripts on one Redis, or on the masters of a Redis Cluster.

Every script works on one key. In a cluster the key's slot says which master is asked: the map of slots is read
when it is needed, and mended when a master says MOVED. A master that fails makes the map doubtful: the call fails
with `ConnectionError`, and the next one reads the map anew, from any server that answers. So a failover costs
failed calls until the cluster has elected a new master, and nothing else.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from tickwheel.adapters.redis.address import Place, RedisAddress
from tickwheel.adapters.redis.wire import CALL_SECONDS, Answer, Command, Wire, see
from tickwheel.ports.clock import Clock

REDIRECTS: Final = 4
MAP_SECONDS: Final = 0.4
"""How long one server may take to show the map, before another one is asked."""
PAUSE_MS: Final = 20
_UNSETTLED: Final = (ClusterDownError, MasterDownError, TryAgainError, ReadOnlyError)
"""The cluster is about to change its map, or has just done so."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script of one key; `load_script` reads it."""

    text: bytes
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text, usedforsecurity=False).hexdigest())


def load_script(name: str) -> Script:
    """`lua/<name>.lua`."""
    return Script((files(__package__) / "lua" / f"{name}.lua").read_bytes())


ForKey: TypeAlias = tuple[bytes, Sequence[bytes | str | int]]
"""A key and the arguments of a script."""


class Call(NamedTuple):
    """A command and the key that it is about."""

    key: bytes
    command: Command


class Servers(Protocol):
    """Where calls go."""

    async def ask(self, calls: Sequence[Call]) -> list[Answer]:
        """The answers, in order. Raises `ConnectionError`."""
        ...

    async def ask_each(self, calls: Sequence[Call]) -> list[Answer]:
        """The same, but `ConnectionError` is the answer to those calls whose server failed, if others did not."""
        ...

    def any_place(self) -> Place:
        """A server that is likely to answer, for what any of them can do."""
        ...

    async def aclose(self) -> None: ...


async def run_commands(servers: Servers, calls: Sequence[Call]) -> list[Any]:
    """The answers. Raises `ConnectionError`, also where a server refuses (no memory left, a replica)."""
    answers = await servers.ask(calls) if calls else []
    for answer in answers:
        if isinstance(answer, ResponseError):
            raise ConnectionError(f"Redis refuses: {answer}")
    return answers


async def run_script(
    servers: Servers, script: Script, of_keys: Sequence[ForKey], *, instead: Any = None
) -> list[Any]:
    """What the script gives for each. Raises `ConnectionError`, also where a server refuses it.

    With `instead`, that is the answer for keys whose server failed, if others did not.
    """
    ask = servers.ask if instead is None else servers.ask_each
    calls = [Call(key, ("EVALSHA", script.sha, 1, key, *arguments)) for key, arguments in of_keys]
    answers = await ask(calls)
    unknown = [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
    if unknown:
        again = [Call(calls[n].key, ("EVAL", script.text, *calls[n].command[2:])) for n in unknown]
        for number, answer in zip(unknown, await ask(again), strict=True):
            answers[number] = answer
    for number, answer in enumerate(answers):
        if isinstance(answer, ResponseError):
            raise ConnectionError(f"Redis refuses: {answer}")
        if isinstance(answer, ConnectionError):
            answers[number] = instead
    return answers


def open_servers(address: RedisAddress, clock: Clock, *, call_seconds: float = CALL_SECONDS) -> Servers:
    """Nothing is sent yet."""
    if address.is_cluster:
        return ClusterServers(address, clock, call_seconds=call_seconds)
    return SingleServer(address, call_seconds=call_seconds)


class SingleServer:
    """One Redis."""

    def __init__(self, address: RedisAddress, *, call_seconds: float) -> None:
        [place] = address.places
        self._wire = Wire(address, place, call_seconds=call_seconds)

    async def ask(self, calls: Sequence[Call]) -> list[Answer]:
        answers = await self._wire.ask([call.command for call in calls])
        if any(isinstance(answer, MovedError) for answer in answers):
            raise ConnectionError(f"{self._wire.place} is part of a Redis Cluster: write redis+cluster://")
        if any(isinstance(answer, ReadOnlyError) for answer in answers):
            self._wire.cut("it is a replica")  # after a failover its name may lead elsewhere
        return answers

    async def ask_each(self, calls: Sequence[Call]) -> list[Answer]:
        return await self.ask(calls)

    def any_place(self) -> Place:
        return self._wire.place

    async def aclose(self) -> None:
        await self._wire.aclose()


class ClusterServers:
    """The masters of a Redis Cluster."""

    def __init__(self, address: RedisAddress, clock: Clock, *, call_seconds: float) -> None:
        self._address, self._clock, self._call_seconds = address, clock, call_seconds
        self._wires: dict[Place, Wire] = {}
        self._slots: dict[int, Place] = {}  # by slot
        self._known: list[Place] = list(address.places)  # who may be asked for the map, the likeliest first
        self._doubtful = True
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, calls: Sequence[Call]) -> list[Answer]:
        answers = await self.ask_each(calls)
        for answer in answers:
            if isinstance(answer, ConnectionError):
                raise answer
        return answers

    async def ask_each(self, calls: Sequence[Call]) -> list[Answer]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._call_seconds
        answers: list[Answer] = [None] * len(calls)
        left = list(range(len(calls)))
        for tries in range(REDIRECTS):
            if self._doubtful:
                await self._read_map(deadline)
            by_place: dict[Place | None, list[int]] = {}
            for number in left:
                by_place.setdefault(self._slots.get(key_slot(calls[number].key)), []).append(number)
            parts = [
                self._ask_one(place, [calls[number] for number in numbers], deadline)
                for place, numbers in by_place.items()
            ]
            for numbers, part in zip(by_place.values(), await asyncio.gather(*parts), strict=True):
                for number, answer in zip(numbers, part, strict=True):
                    answers[number] = answer
            left = [number for number in left if self._is_elsewhere(answers[number])]
            if not left or loop.time() >= deadline:
                break
            if tries:
                await self._clock.sleep_ms(PAUSE_MS)
        if all(isinstance(answer, ConnectionError) for answer in answers):
            raise answers[0]
        return answers

    def any_place(self) -> Place:
        return self._known[0]

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        for wire in self._wires.values():
            await wire.aclose()

    async def _ask_one(self, place: Place | None, calls: list[Call], deadline: float) -> list[Answer]:
        """Raises nothing: where the server fails, that is each call's answer."""
        if place is None:
            self._doubtful = True
            failure = ConnectionError(f"{self._address.described}: no server has the slot of {calls[0].key!r}")
            return [failure] * len(calls)
        try:
            answers = await self._wire(place).ask([call.command for call in calls], deadline=deadline)
            for number, answer in enumerate(answers):
                if isinstance(answer, AskError) and not isinstance(answer, MovedError):
                    target = Place(str(answer.host) or place.host, int(answer.port))
                    asked = [("ASKING",), calls[number].command]
                    answers[number] = (await self._wire(target).ask(asked, deadline=deadline))[1]
            return answers
        except ConnectionError as error:
            self._doubtful = True
            self._distrust(place)
            return [error] * len(calls)

    def _is_elsewhere(self, answer: Answer) -> bool:
        """Whether it is worth asking again, by a new map."""
        if isinstance(answer, (MovedError, *_UNSETTLED)):
            self._doubtful = True  # others have moved as well, most likely
            return True
        return False

    def _wire(self, place: Place) -> Wire:
        if place not in self._wires:
            self._wires[place] = Wire(self._address, place, call_seconds=self._call_seconds)
        return self._wires[place]

    def _distrust(self, place: Place) -> None:
        if place in self._known:
            self._known.remove(place)
            self._known.append(place)

    async def _read_map(self, deadline: float) -> None:
        """Callers of the same moment share one reading."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_map_of_any())
            self._reading.add_done_callback(see)  # whoever waited may be gone
        seconds = deadline - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({self._reading}, timeout=seconds)
        if not done or self._reading.cancelled():
            raise ConnectionError(f"{self._address.described}: no map of the cluster in time")
        self._reading.result()

    async def _read_map_of_any(self) -> None:
        failures = []
        loop = asyncio.get_running_loop()
        for place in list(self._known):
            try:
                [ranges] = await self._wire(place).ask([("CLUSTER", "SLOTS")], deadline=loop.time() + MAP_SECONDS)
            except ConnectionError as error:
                self._distrust(place)
                failures.append(str(error))
                continue
            if isinstance(ranges, ResponseError) or not ranges:
                failures.append(f"{place}: {ranges or 'it has no slots'}")
                continue
            await self._take_map(place, ranges)
            return
        raise ConnectionError("; ".join(failures))

    async def _take_map(self, asked: Place, ranges: list[Any]) -> None:
        slots: dict[int, Place] = {}
        places: dict[Place, None] = {asked: None}
        for first, last, *holders in ranges:
            found = [Place((host or b"").decode() or asked.host, port) for host, port, *_ in holders]
            slots.update(dict.fromkeys(range(first, last + 1), found[0]))
            places.update(dict.fromkeys(found))
        self._slots, self._doubtful = slots, False
        self._known = [*places, *(place for place in self._address.places if place not in places)]
        for gone in [place for place in self._wires if place not in self._known]:
            await self._wires.pop(gone).aclose()
