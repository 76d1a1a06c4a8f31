"""`KeyCoordinator`: beats and locks over keys with revisions. Used by etcd and by Consul.

**Keys.** `members/<incarnation>` holds the counter, a space and the payload; `locks/<name>` holds the holder's
incarnation. A lock's token is the revision at which its key was created: it rises over all locks and is never
given twice. People can read both with the server's own tools.

**A beat** is one conditional write: "provided that my key is as I last wrote it". So a beat that was held up on
its way finds a newer one and does nothing. When the condition fails, the key is read: either the write had
happened and its answer was lost, or somebody called this process dead and took the key away, and the next write
brings it back.

**A lock lives on its holder's beats**, and no server can watch those: its sessions and leases end after many
seconds, and begin anew when its leader changes. So it is the observers who time the silence, each on its own
clock, and whoever finds a lapsed lock deletes its key, provided that the holder's beat is still the silent one.
Example, with a lapse of 2,000 ms: `a` holds `sweep` (token 17) and stops at 0. `b` asks at 1,000 and gets None;
at 2,100 it deletes the key and creates it at revision 42, its token. If `a` goes on at 3,000, it sees before its
first beat that it was silent itself, and drops what it may still hold.
"""

import re
from collections.abc import Mapping
from typing import Final

from tickwheel.adapters.coordination.keys import ABSENT, Change, Entry, KeyStore
from tickwheel.adapters.coordination.sightings import Sightings
from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Beat

_MEMBERS: Final = "members/"
_LOCKS: Final = "locks/"
_TRY_COUNT: Final = 3
_BEAT: Final = re.compile(rb"[0-9]{1,19}(?: |\Z)")
LAPSE_MS: Final = 2_000
"""How long a lock outlives its holder's last beat."""


class KeyCoordinator:
    """Implements `ports.coordinator.Coordinator`."""

    def __init__(self, keys: KeyStore, clock: Clock, lapse_ms: int = LAPSE_MS) -> None:
        self._keys, self._clock = keys, clock
        self._sightings = Sightings(lapse_ms)
        self._written: dict[str, tuple[int, int]] = {}  # revision and counter of this process's latest beats

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        if self._is_silent(incarnation):
            await self._look()  # its locks are lost, and have to be before it looks alive again
        key, value = _MEMBERS + incarnation, b"%d %b" % (counter, payload)
        seen, last_counter = self._written.get(incarnation, (ABSENT, -1))
        for _ in range(_TRY_COUNT):
            if counter <= last_counter:
                return
            sent_ms = self._clock.monotonic_ms()
            revision = await self._swap(Change(key, seen, value, fleeting=True))
            if revision is None:
                entry = (await self._read()).get(key)
                if entry is not None and entry.value == value and entry.modified != seen:
                    revision = entry.modified  # it was written, and the answer got lost
            if revision is not None:
                self._written[incarnation] = revision, counter
                self._sightings.see(incarnation, revision, self._clock.monotonic_ms())
                self._sightings.wrote(incarnation, sent_ms)
                return
            seen, last_counter = (entry.modified, _counter(entry)) if entry is not None else (ABSENT, -1)
            self._written[incarnation] = seen, last_counter
        raise ConnectionError(f"{self._keys.described}: the beat of {incarnation} was overtaken each time")

    async def members(self) -> Mapping[str, Beat]:
        return {
            key.removeprefix(_MEMBERS): _beat(entry)
            for key, entry in (await self._read()).items()
            if key.startswith(_MEMBERS)
        }

    async def leave(self, incarnation: str) -> None:
        key = _MEMBERS + incarnation
        for _ in range(_TRY_COUNT):
            entry = (await self._read()).get(key)
            if entry is None or await self._swap(Change(key, entry.modified)) is not None:
                break
        self._sightings.forget(incarnation)
        self._written.pop(incarnation, None)
        # Last: whoever is no member gets no new lock, so that none can slip in between.
        for name, lock in (await self._read()).items():
            if name.startswith(_LOCKS) and _holder(lock) == incarnation:
                await self._swap(Change(name, lock.modified))

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        key, member_key = _LOCKS + name, _MEMBERS + incarnation
        entries = await self._look()
        for _ in range(_TRY_COUNT):
            member, lock = entries.get(member_key), entries.get(key)
            if member is None or self._is_silent(incarnation):
                return None
            if lock is not None:
                return lock.created if _holder(lock) == incarnation else None
            revision = await self._swap(
                Change(key, ABSENT, incarnation.encode()), Change(member_key, member.modified, only_check=True)
            )
            if revision is not None:
                return revision
            entries = await self._read()
        return None

    async def release_lock(self, name: str, incarnation: str) -> None:
        lock = (await self._look()).get(_LOCKS + name)
        if lock is not None and _holder(lock) == incarnation:
            await self._swap(Change(_LOCKS + name, lock.modified))

    async def lock_holder(self, name: str) -> str | None:
        lock = (await self._look()).get(_LOCKS + name)
        return None if lock is None else _holder(lock)

    async def aclose(self) -> None:
        await self._keys.aclose()

    async def _look(self) -> Mapping[str, Entry]:
        """Everything, after locks whose holder is silent or gone were dropped."""
        sent_ms = self._clock.monotonic_ms()
        entries = await self._read()
        dropped = False
        for key, lock in entries.items():
            if key.startswith(_LOCKS) and self._is_lost(holder := _holder(lock), entries, sent_ms):
                member_key = _MEMBERS + holder
                member = entries.get(member_key)
                seen = member.modified if member is not None else ABSENT
                await self._swap(Change(key, lock.modified), Change(member_key, seen, only_check=True))
                dropped = True
        return await self._read() if dropped else entries

    def _is_lost(self, holder: str, entries: Mapping[str, Entry], now_ms: int) -> bool:
        return _MEMBERS + holder not in entries or self._sightings.is_silent(holder, now_ms)

    def _is_silent(self, incarnation: str) -> bool:
        return self._sightings.is_silent(incarnation, self._clock.monotonic_ms())

    async def _read(self) -> Mapping[str, Entry]:
        try:
            entries = await self._keys.read()
        except ConnectionError:
            self._sightings.start_anew()
            raise
        entries = {key: entry for key, entry in entries.items() if _is_ours(key, entry)}
        self._sightings.see_all(
            {
                key.removeprefix(_MEMBERS): entry.modified
                for key, entry in entries.items()
                if key.startswith(_MEMBERS)
            },
            self._clock.monotonic_ms(),
        )
        return entries

    async def _swap(self, *changes: Change) -> int | None:
        try:
            return await self._keys.swap(changes)
        except ConnectionError:
            self._sightings.start_anew()
            raise


def _is_ours(key: str, entry: Entry) -> bool:
    """Not something that a person put there by hand."""
    return key.startswith(_LOCKS) or (key.startswith(_MEMBERS) and _BEAT.match(entry.value) is not None)


def _beat(entry: Entry) -> Beat:
    return Beat(_counter(entry), entry.value.partition(b" ")[2])


def _counter(entry: Entry) -> int:
    return int(entry.value.partition(b" ")[0])


def _holder(lock: Entry) -> str:
    return lock.value.decode(errors="replace")
