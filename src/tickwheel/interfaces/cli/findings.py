"""What a check of `tickwheel doctor` says."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One line; `remedy` says what to do about it."""

    name: str
    level: Level
    text: str
    remedy: str = ""
