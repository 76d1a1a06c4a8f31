"""What is known about one field of a job request."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from tickwheel.domain.job import ScheduleType, TargetType

Scalar: TypeAlias = str | int | float | None


class Kind(StrEnum):
    """What a field holds, in the words of the error texts."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    INSTANT = "RFC 3339 instant"
    ENUM = "one of the listed words"
    OBJECT = "object"
    STRING_MAP = "object of strings"
    STRING_LIST = "array of strings"
    OBJECT_LIST = "array of objects"
    ANY = "any JSON"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field. `path` is dotted, `[]` is each item; bounds are inclusive and in the unit that the name says.

    `schedule_types` and `target_type` say with which it goes; empty and None mean with all. `not_with` names
    fields that exclude it. `null` always means the default.
    """

    path: str
    kind: Kind
    summary: str
    default: Scalar = None
    default_text: str = ""  # where the default isn't a plain value
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    max_chars: int | None = None
    max_items: int | None = None
    choices: tuple[str, ...] = ()
    schedule_types: tuple[ScheduleType, ...] = ()
    target_type: TargetType | None = None
    not_with: tuple[str, ...] = ()
    unit: str = ""

    @property
    def parent(self) -> str:
        """The path of the object that holds it; "" for the top."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]
