"""Columns as PostgreSQL arrays in binary form, and back.

A batch of any size travels as a handful of byte strings that are made by numpy, so a row costs no Python
object. An array of fixed-size values is a head of five big-endian integers (dimensions, NULL flag, element type,
count, lower bound) and then, per element, its length and its value: one structured array gives all at once.
"""

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tickwheel.domain.columns import TIMER, Rows, empty

_HEAD: Final = struct.Struct(">iiiii")
_EMPTY_HEAD: Final = struct.Struct(">iii")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)
_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 12


class Array(bytes):
    """The binary form of an array parameter; the subclass says of what."""

    __slots__ = ()
    oid: ClassVar[int]  # of the array type


class Int8s(Array):
    oid = 1016


class Int4s(Array):
    oid = 1007


class Int2s(Array):
    oid = 1005


class Uuids(Array):
    oid = 2951


class Texts(Array):
    oid = 1009


class Byteas(Array):
    oid = 1001


_ELEMENT_OIDS: Final[dict[type[Array], int]] = {
    Int8s: 20,
    Int4s: 23,
    Int2s: 21,
    Uuids: 2950,
    Texts: 25,
    Byteas: 17,
}


def int8s(values: npt.ArrayLike) -> Int8s:
    """int8[]; NULL has to be told by a value."""
    return Int8s(_fixed(20, np.asarray(values), ">i8"))


def int4s(values: npt.ArrayLike) -> Int4s:
    """int4[]."""
    return Int4s(_fixed(23, np.asarray(values), ">i4"))


def int2s(values: npt.ArrayLike) -> Int2s:
    """int2[]; also for flags."""
    return Int2s(_fixed(21, np.asarray(values), ">i2"))


def uuids(ids: Rows) -> Uuids:
    """uuid[] of a `V16` array."""
    return Uuids(_fixed(2950, ids, "V16"))


def uuids_of(ids: Sequence[bytes]) -> Uuids:
    """uuid[] of single ids."""
    return uuids(np.frombuffer(b"".join(ids), "V16") if ids else np.empty(0, "V16"))


def texts(values: Sequence[str | None]) -> Texts:
    """text[]. Raises `UnicodeEncodeError` for text that is not Unicode."""
    return Texts(_variable(25, [None if value is None else value.encode() for value in values]))


def byteas(values: Sequence[bytes | None]) -> Byteas:
    """bytea[]."""
    return Byteas(_variable(17, values))


def _fixed(oid: int, values: npt.NDArray[Any], form: str) -> bytes:
    if not len(values):
        return _EMPTY_HEAD.pack(0, 0, oid)
    elements = np.empty(len(values), np.dtype([("length", ">i4"), ("value", form)]))
    elements["length"] = np.dtype(form).itemsize
    elements["value"] = values
    return _HEAD.pack(1, 0, oid, len(values), 1) + elements.tobytes()


def _variable(oid: int, values: Sequence[bytes | None]) -> bytes:
    if not values:
        return _EMPTY_HEAD.pack(0, 0, oid)
    parts = [_HEAD.pack(1, 1, oid, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(_LENGTH.pack(len(value)))
            parts.append(value)
    return b"".join(parts)


def _dumper(kind: type[Array]) -> type[Dumper]:
    class ArrayDumper(Dumper):
        format = Format.BINARY
        oid = kind.oid

        def dump(self, obj: Any) -> bytes:
            return bytes(obj)

    return ArrayDumper


def register(connection: psycopg.Connection[Any]) -> None:
    """Let the connection send `Array`s."""
    for kind in _ELEMENT_OIDS:
        connection.adapters.register_dumper(kind, _dumper(kind))


_TIMER_COLUMNS: Final = (
    ("due_ms", ">i8"),
    ("job_id", "V16"),
    ("scheduled_ms", ">i8"),
    ("gen", ">i4"),
    ("flags", ">i2"),
)
TIMER_ARRAYS: Final = ", ".join(f"array_send(array_agg(t.{name}))" for name, _ in _TIMER_COLUMNS)
"""What a query selects from timers `t` for `timers_from_arrays`: the driver takes long for a row."""


def timers_from_arrays(columns: Sequence[bytes | None]) -> Rows:
    """TIMER rows from the columns of `TIMER_ARRAYS`, which are NULL where there are no rows."""
    first = columns[0]
    count = 0 if first is None else _COUNT.unpack_from(first, _COUNT_AT)[0]
    rows = empty(TIMER, count)
    for (name, form), column in zip(_TIMER_COLUMNS, columns, strict=True):
        if column is not None:
            elements = np.dtype([("length", ">i4"), ("value", form)])
            rows[name] = np.frombuffer(column, elements, count, _HEAD.size)["value"]
    return rows
