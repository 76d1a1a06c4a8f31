"""Who is alive, judged by the silence between beats.

Every node shows a counter that rises with each of its beats. This one reads all counters every 100 ms and times
*on its own monotonic clock* how long one has not changed; clocks of two machines are never compared, so a clock
that is wrong or steps can't kill anybody.

**Trusted time** (G2). Silence counts only while this node's own beats were written and read back. Example: the
coordinator restarts and answers nobody for 3 s. All counters stand still, everybody looks dead. But our own beats
failed too, so all silences begin anew with the first round that works, and by then the others' counters move.
Likewise after a pause of our own: a node that was stopped for 40 s finds old counters when it wakes up, and must
not take them for the silence of others. What is *not* required is a beat of somebody else: of two nodes, one
outlives the other.

**Standings.** A member that is seen for the first time is NEW: its row may be a week old. It is ALIVE once its
counter was seen to change, and SILENT after `dead_ms` without a change. Owners of shards that the coordinator
does not know (it lost its data; they died long ago) are members to be judged like the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from tickwheel.ports.coordinator import Beat
from tickwheel.services.ownership.node_note import UNREADABLE, NodeNote, decode_note, process_of

LONGEST_GAP_MS: Final = 600
"""Rounds further apart than this leave time in which nothing is known: silences begin anew."""


class Standing(Enum):
    """What the counter of a member says."""

    NEW = "new"  # seen, but not seen to change yet
    ALIVE = "alive"
    SILENT = "silent"


class Member(msgspec.Struct, frozen=True):
    """Another incarnation, as it is judged now."""

    incarnation: str
    standing: Standing
    silent_ms: int
    note: NodeNote


@dataclass(slots=True)
class _Seen:
    counter: int
    payload: bytes
    note: NodeNote
    changed_ms: int  # when the latest change was read, or when the silence began anew
    silent_ms: int = 0
    was_changed: bool = False
    listed: bool = True  # False: an owner of shards that the coordinator does not know


class Membership:
    """The other incarnations. Fed with one round of beat and read at a time."""

    def __init__(self, *, dead_ms: int) -> None:
        self._dead_ms = dead_ms
        self._seen: dict[str, _Seen] = {}
        self._answered_ms: int | None = None  # monotonic: the latest round that worked

    def observe(self, beats: Mapping[str, Beat], asked_ms: int, answered_ms: int) -> None:
        """Take in a reading; our own beats were written and read back.

        A counter that is the same as before was silent from when that was *answered* until now was *asked*: so
        much is certain, however long the answers took.
        """
        if self._answered_ms is None or asked_ms - self._answered_ms > LONGEST_GAP_MS:
            self.begin_anew(answered_ms)
        self._answered_ms = answered_ms
        for incarnation, beat in beats.items():
            self._take_in(incarnation, beat, asked_ms, answered_ms)
        for incarnation, seen in list(self._seen.items()):
            if incarnation not in beats:
                if seen.listed:
                    del self._seen[incarnation]  # it has left, or was cleared away
                else:
                    seen.silent_ms = max(0, asked_ms - seen.changed_ms)

    def _take_in(self, incarnation: str, beat: Beat, asked_ms: int, answered_ms: int) -> None:
        seen = self._seen.get(incarnation)
        if seen is None or not seen.listed:
            note = decode_note(beat.payload)
            self._seen[incarnation] = _Seen(beat.counter, beat.payload, note, answered_ms)
        elif seen.counter != beat.counter:
            if seen.payload != beat.payload:
                seen.payload, seen.note = beat.payload, decode_note(beat.payload)
            seen.counter, seen.changed_ms, seen.silent_ms, seen.was_changed = beat.counter, answered_ms, 0, True
        else:
            seen.silent_ms = max(0, asked_ms - seen.changed_ms)

    def begin_anew(self, at_ms: int) -> None:
        """A beat of our own failed: no silence from before counts."""
        for seen in self._seen.values():
            seen.changed_ms, seen.silent_ms = at_ms, 0
        self._answered_ms = None

    def expect(self, owners: Iterable[str], at_ms: int) -> None:
        """Judge these owners of shards too, whether they beat or not; those that own nothing are dropped."""
        expected = set(owners)
        for incarnation in expected - self._seen.keys():
            self._seen[incarnation] = _Seen(0, b"", UNREADABLE, at_ms, listed=False)
        for incarnation, seen in list(self._seen.items()):
            if not seen.listed and incarnation not in expected:
                del self._seen[incarnation]

    def trusted_at(self, now_ms: int) -> bool:
        """Whether the latest round worked and is recent; else membership is frozen."""
        return self._answered_ms is not None and now_ms - self._answered_ms < self._dead_ms

    def members(self) -> list[Member]:
        """All others, by name."""
        return [
            Member(incarnation, self._standing(seen), seen.silent_ms, seen.note)
            for incarnation, seen in sorted(self._seen.items())
        ]

    def _standing(self, seen: _Seen) -> Standing:
        if seen.silent_ms >= self._dead_ms:
            return Standing.SILENT
        return Standing.ALIVE if seen.was_changed else Standing.NEW


def candidates(members: Iterable[Member], excluded: Iterable[str]) -> list[Member]:
    """Those that are ranked (G3): not silent, fit, and of each process only its latest incarnation."""
    latest: dict[str, tuple[int, Member]] = {}
    out = set(excluded)
    for member in members:
        if member.standing is Standing.SILENT or not member.note.is_candidate or member.incarnation in out:
            continue
        process, number = process_of(member.incarnation)
        if process not in latest or latest[process][0] < number:
            latest[process] = (number, member)
    return [member for _, member in latest.values()]
