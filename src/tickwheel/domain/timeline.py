"""A zone as a row of periods, each with one constant offset from UTC.

Inside a period the wall clock runs as straight as UTC does; everything odd happens where two periods meet. So
the cron evaluator needs no rules about folds or imaginary times: it looks for a matching wall second inside
one period, and if there's none, in the next.

Example, Europe/Berlin 2026: +1 h until Mar 29 01:00Z, +2 h until Oct 25 01:00Z, then +1 h again.
Wall seconds (seconds since 1970-01-01T00:00 on the wall) jump from 02:00 to 03:00 at the first seam (a gap), and
from 03:00 back to 02:00 at the second (an overlap).

The seams are read from the TZif file; the offset between two of them is asked from `zoneinfo`. Past the file's
last seam, where the POSIX rule in the file's footer holds, the seams are found by probing `zoneinfo` and
bisecting, ten years at a time. That rule repeats with the calendar every 400 years, so far instants are moved
back by whole cycles and a timeline stays small whatever year it's asked about.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from tickwheel.domain.zones import load_zone, zone_bytes

CYCLE_S = 146_097 * 86_400
"""The Gregorian calendar, weekdays included, repeats after 400 years."""

MIN_S = -62_135_424_000
"""0001-01-03T00:00:00Z, the earliest instant looked at: every offset of it is still a date."""

MAX_S = 253_402_300_799
"""9999-12-31T23:59:59Z, the latest instant looked at."""

_FAR = 1 << 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROBE_STEP_S = 14 * 86_400  # no rule has a period this short; tests compare every zone hour by hour
_CHUNK_YEARS = 10


class Period(NamedTuple):
    """`[start, end)` in UTC seconds during which wall seconds = UTC seconds + `offset`.

    `jump` is by how much the wall clock was put forward at `start`, negative = back.
    """

    start: int
    end: int
    offset: int
    jump: int

    @property
    def high(self) -> int:
        """The end of what the wall clock had shown before `start`: wall seconds below it have been seen.

        That is where the period before it ended, since no zone has ever changed its clock twice within the length
        of an overlap (a test holds the zone data to that).
        """
        return self.start + self.offset - self.jump


class _Table(NamedTuple):
    """Never changed, only replaced by a longer one: threads that extend it at once just do the work twice."""

    starts: list[int]
    offsets: list[int]
    known_until: int


class Timeline:
    """The periods of one zone, extended as far as somebody asks. Get it from `timeline_of`."""

    __slots__ = ("_table", "_zone", "name", "regular_from", "seasonal")

    def __init__(self, name: str) -> None:
        self.name = name
        self._zone = load_zone(name)
        seams = _explicit_seams(zone_bytes(name))
        last_year = (_EPOCH + timedelta(seconds=seams[-1])).year if seams else 1970
        table = _Table([-_FAR], [self._offset_at(seams[0] - 1 if seams else 0)], 0)
        self._append(table, seams)
        table = self._probed(table._replace(known_until=seams[-1] if seams else 0), last_year + 4)
        self.regular_from = _year_start(last_year + 2)
        self.seasonal = table.starts[-1] >= self.regular_from
        """False where the clock never changes again after `regular_from`."""
        self._table = table

    def index_at(self, instant_s: int) -> int:
        """Which period (0, 1, ...) holds `instant_s` (UTC seconds, at most 400 years and a bit ahead)."""
        table = self._table
        while self.seasonal and instant_s >= table.known_until:
            table = self._extend(table)
        return bisect_right(table.starts, instant_s) - 1

    def period(self, index: int) -> Period:
        """The period at `index`; any index exists in a seasonal zone, the last one never ends in the others."""
        table = self._table
        while self.seasonal and index + 1 >= len(table.starts):
            table = self._extend(table)
        starts, offsets, _ = table
        end = starts[index + 1] if index + 1 < len(starts) else _FAR
        jump = offsets[index] - offsets[index - 1] if index else 0
        return Period(starts[index], end, offsets[index], jump)

    def offset_at(self, instant_s: int) -> int:
        """The offset from UTC in seconds at any instant between MIN_S and MAX_S."""
        return self.period(self.index_at(instant_s - self.fold_back(instant_s))).offset

    def changes(self, after_s: int, until_s: int) -> Iterator[Period]:
        """The periods that begin in `(after_s, until_s]`, ascending."""
        cursor = max(after_s, MIN_S)
        while cursor < until_s:
            moved = self.fold_back(cursor)
            index = self.index_at(cursor - moved) + 1
            if not self.seasonal and index == len(self._table.starts):
                return
            start, end, offset, jump = self.period(index)
            cursor = start + moved
            if cursor <= until_s:
                yield Period(cursor, end + moved, offset, jump)

    def fold_back(self, instant_s: int) -> int:
        """How many seconds (whole cycles, often 0) to move `instant_s` back without changing any answer."""
        ahead = instant_s - self.regular_from
        return ahead - ahead % CYCLE_S if ahead >= CYCLE_S else 0

    def _offset_at(self, instant_s: int) -> int:
        offset = (_EPOCH + timedelta(seconds=instant_s)).astimezone(self._zone).utcoffset()
        assert offset is not None  # a ZoneInfo always has one; this is for the type checker
        return offset.days * 86_400 + offset.seconds

    def _append(self, table: _Table, seams: list[int]) -> None:
        for seam in seams:
            offset = self._offset_at(seam)
            if offset != table.offsets[-1]:  # many seams change only the abbreviation
                table.starts.append(seam)
                table.offsets.append(offset)

    def _extend(self, table: _Table) -> _Table:
        year = (_EPOCH + timedelta(seconds=table.known_until)).year
        self._table = self._probed(table, year + _CHUNK_YEARS)
        return self._table

    def _probed(self, table: _Table, until_year: int) -> _Table:
        until = _year_start(until_year)
        seams = []
        left = table.known_until
        left_offset = self._offset_at(left)
        while left < until:
            right = min(left + _PROBE_STEP_S, until)
            right_offset = self._offset_at(right)
            if right_offset != left_offset:
                seams.append(self._bisect(left, right, left_offset))
            left, left_offset = right, right_offset
        extended = _Table(list(table.starts), list(table.offsets), until)
        self._append(extended, seams)
        return extended

    def _bisect(self, left: int, right: int, left_offset: int) -> int:
        while right - left > 1:
            middle = (left + right) // 2
            if self._offset_at(middle) == left_offset:
                left = middle
            else:
                right = middle
        return right


@lru_cache(maxsize=1024)
def timeline_of(name: str) -> Timeline:
    """The timeline of the zone called `name`. Raises UnknownZoneError."""
    return Timeline(name)


def _year_start(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())


def _explicit_seams(tzif: bytes) -> list[int]:
    """The transition instants of the 64-bit block of a TZif file (RFC 9636, section 3)."""
    header = struct.Struct(">4x1x15x6l")
    ut, std, leap, seams, types, chars = header.unpack_from(tzif)
    second = header.size + seams * 5 + types * 6 + chars + leap * 8 + std + ut  # behind the 32-bit block
    count = header.unpack_from(tzif, second)[3]
    instants = struct.unpack_from(f">{count}q", tzif, second + header.size)
    return [instant for instant in instants if instant > MIN_S]
