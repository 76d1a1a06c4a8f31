"""A kind of records in memory, as they were at most a second ago.

Each second the version of all records is asked for, which is one cheap read; only when it has risen are the
records of the kind read again. The version is read first: a record that changes while the others are read raises
the version once more, so it is met a second later at the latest. Without the store, what was known stays.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from tickwheel.ports.clock import Clock
from tickwheel.ports.registry import Record

T = TypeVar("T")

REFRESH_MS: Final = 1_000

RecordName: TypeAlias = tuple[str, str]
"""(tenant, name)."""


class ReadsRecords(Protocol):
    """The part of `ports.registry.Registry` that is asked."""

    async def records(self, kind: str) -> Sequence[Record]: ...

    async def records_version(self) -> int: ...


class RecordCache(Generic[T]):
    """Reads are plain look-ups, from any thread. A service that writes a record calls `now_stale` and `refresh`.

    `decode` raises ValueError (as msgspec does) for a body that this version can't read. Then what the record said
    before counts on, if it was known; `unreadable` names it.
    """

    def __init__(self, registry: ReadsRecords, kind: str, decode: Callable[[Record], T], clock: Clock) -> None:
        self._registry, self._kind, self._decode, self._clock = registry, kind, decode, clock
        self._known: dict[RecordName, T] = {}
        self._version: int | None = None
        self._stale = True
        self._unreadable: tuple[RecordName, ...] = ()
        self.generation = 0
        """Rises with each reading: what was derived from the records before it is old."""
        self._refreshing = asyncio.Lock()

    def get(self, tenant_id: str, name: str) -> T | None:
        """What the record says; None if there is none."""
        return self._known.get((tenant_id, name))

    def all(self) -> Mapping[RecordName, T]:
        """Everything, by tenant and name; a later refresh doesn't change what was given."""
        return MappingProxyType(self._known)

    @property
    def loaded(self) -> bool:
        """Whether the records were read at least once."""
        return self._version is not None

    @property
    def unreadable(self) -> Sequence[RecordName]:
        """Records that `decode` refused."""
        return self._unreadable

    def now_stale(self) -> None:
        """Read the records at the next refresh, whatever the version says."""
        self._stale = True

    async def refresh(self) -> None:
        """Read what has changed. Raises what the store raises; what was known stays then."""
        async with self._refreshing:
            version = await self._registry.records_version()
            if version == self._version and not self._stale:
                return
            self._stale = False
            try:
                self._take_over(await self._registry.records(self._kind))
            except BaseException:
                self._stale = True
                raise
            self._version = version

    def _take_over(self, records: Sequence[Record]) -> None:
        known: dict[RecordName, T] = {}
        unreadable = []
        for record in records:
            name = record.tenant_id, record.name
            try:
                known[name] = self._decode(record)
            except (ValueError, msgspec.MsgspecError):
                unreadable.append(name)
                if name in self._known:
                    known[name] = self._known[name]
        self._known, self._unreadable = known, tuple(unreadable)
        self.generation += 1

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await self.refresh()
            await self._clock.sleep_ms(REFRESH_MS)
