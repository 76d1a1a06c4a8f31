"""The slots of one level of the timing wheel: packed rows, kept by absolute slot number.

A packed row is a `TIMER` row with its eight-byte due time replaced by the offset into its UTC hour, which takes
four; the hour is known from the slot's number, because no slot is wider than an hour. So a row takes 34 bytes
instead of 38, exactly and for every value.

A slot is a list of byte chunks. Rows are appended to the last chunk while it has room, so that thousands of
single inserts take hardly more than their own bytes, and they leave from the front, so that the memory goes
back chunk by chunk while a big slot is being emptied.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import TIMER, Ints, Rows

HOUR_MS = 3_600_000
NEVER_MS = 1 << 63
"""Later than every due time."""

_REST_BYTES = TIMER.itemsize - 8
_REST = f"V{_REST_BYTES}"
_TIMER_SPLIT = np.dtype([("due_ms", "<i8"), ("rest", _REST)])
_PACKED = np.dtype([("offset_ms", "<u4"), ("rest", _REST)])
ROW_BYTES = _PACKED.itemsize
_CHUNK_BYTES = 65_536 // ROW_BYTES * ROW_BYTES
_U16_SPAN = 1 << 16
_FEW_KEYS = 128

Slot: TypeAlias = list[bytearray]
"""Chunks of whole packed rows, oldest first; only the last one grows."""


def pack(timers: Rows) -> Rows:
    """`TIMER` rows as packed rows; the caller keeps their slot numbers, without which the hour is lost."""
    split = timers.view(_TIMER_SPLIT)
    packed = np.empty(len(split), _PACKED)
    packed["offset_ms"] = split["due_ms"] % HOUR_MS
    packed["rest"] = split["rest"]
    return packed


def pack_each(timers: Rows) -> Iterable[tuple[int, bytes]]:
    """Each row as `(due_ms, packed bytes)`: quicker than `pack` for a few rows."""
    for due_ms, rest in timers.view(_TIMER_SPLIT).tolist():
        yield due_ms, (due_ms % HOUR_MS).to_bytes(4, "little") + rest


def open_packed(hour_ms: int, data: bytes | bytearray) -> tuple[Ints, Rows]:
    """The due times (own copy) and packed rows (a view) of `data` out of the hour that starts at `hour_ms`."""
    packed = np.frombuffer(data, _PACKED)
    dues = packed["offset_ms"].astype(np.int64)
    dues += hour_ms
    return dues, packed


def unpack(hour_ms: int, data: bytes | bytearray) -> tuple[Ints, Rows]:
    """The due times and `TIMER` rows (own copies) of `data` out of the hour that starts at `hour_ms`."""
    dues, packed = open_packed(hour_ms, data)
    rows = np.empty(len(packed), _TIMER_SPLIT)
    rows["due_ms"] = dues
    rows["rest"] = packed["rest"]
    return dues, rows.view(TIMER)


def stable_order(keys: Ints) -> npt.NDArray[np.intp]:
    """The permutation that sorts `keys` (one at least), equal ones in their present order.

    A span below 65,536 goes through numpy's 16-bit radix sort, 25 times faster than its 64-bit stable sort.
    """
    if len(keys) < _FEW_KEYS:
        return np.argsort(keys, kind="stable")
    low = int(keys.min())
    narrow = (keys - low).astype(np.uint16) if int(keys.max()) - low < _U16_SPAN else keys
    return np.argsort(narrow, kind="stable")


class Level:
    """All occupied slots of one width, by absolute number: slot `k` holds `k * width <= due < (k + 1) * width`.

    There is no ring and so no rotation: two slots never share a place, and an empty slot costs nothing. A slot
    costs about 300 bytes beside its rows.
    """

    __slots__ = ("_heap", "_slots", "frontier_ms", "width_ms")

    def __init__(self, width_ms: int) -> None:
        self.width_ms = width_ms
        self.frontier_ms = NEVER_MS
        """What is due before it goes into this level or a finer one; kept by the wheel."""
        self._slots: dict[int, Slot] = {}
        self._heap: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def first_ms(self) -> int | None:
        """The start of the earliest occupied slot."""
        return self._heap[0] * self.width_ms if self._heap else None

    def first_row_count(self) -> int:
        """How many rows the earliest occupied slot holds (there must be one)."""
        return sum(map(len, self._slots[self._heap[0]])) // ROW_BYTES

    def append(self, number: int, data: bytes | memoryview) -> None:
        """Put packed rows at the end of slot `number`."""
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = []
            heappush(self._heap, number)
        if slot and len(slot[-1]) + len(data) <= _CHUNK_BYTES:
            slot[-1] += data
            return
        slot.extend(bytearray(data[at : at + _CHUNK_BYTES]) for at in range(0, len(data), _CHUNK_BYTES))

    def scatter(self, dues: Ints, packed: Rows) -> None:
        """Put each packed row (one at least) at the end of the slot of its due time: one sort, one gather."""
        numbers = dues // self.width_ms
        order = stable_order(numbers)
        numbers = numbers.take(order)
        data = packed.take(order).view(np.uint8).data
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        bounds = [*(starts * ROW_BYTES).tolist(), len(data)]
        for number, (begin, end) in zip(numbers.take(starts).tolist(), pairwise(bounds), strict=True):
            self.append(number, data[begin:end])

    def take_first(self, row_count: int | None = None) -> tuple[int, bytes]:
        """Remove up to `row_count` rows (None: all) from the front of the earliest slot: (its hour, packed rows).

        The slot is gone once it is empty.
        """
        number = self._heap[0]
        slot = self._slots[number]
        hour_ms = number * self.width_ms // HOUR_MS * HOUR_MS
        wanted = sum(map(len, slot)) if row_count is None else row_count * ROW_BYTES
        parts: list[bytearray] = []
        whole = 0
        for chunk in slot:
            if len(chunk) > wanted:
                parts.append(chunk[:wanted])
                del chunk[:wanted]
                break
            parts.append(chunk)
            wanted -= len(chunk)
            whole += 1
        del slot[:whole]
        if not slot:
            del self._slots[heappop(self._heap)]
        return hour_ms, b"".join(parts)

    def retain(self, keep: Callable[[Rows], npt.NDArray[np.bool_]]) -> int:
        """Drop the rows for which `keep` is false, chunk by chunk; how many went."""
        slots: dict[int, Slot] = {}
        dropped = 0
        for number, slot in self._slots.items():
            hour_ms = number * self.width_ms // HOUR_MS * HOUR_MS
            kept: Slot = []
            for chunk in slot:
                mask = keep(unpack(hour_ms, chunk)[1])
                gone = len(mask) - int(np.count_nonzero(mask))
                dropped += gone
                if not gone:
                    kept.append(chunk)
                elif gone < len(mask):
                    kept.append(bytearray(np.frombuffer(chunk, _PACKED).compress(mask)))
            if kept:
                slots[number] = kept
        self._slots = slots
        self._heap = sorted(slots)
        return dropped

    def clear(self) -> None:
        """Forget every row."""
        self._slots.clear()
        self._heap.clear()
