"""The lanes, in a module that loads nothing: settings name them, and the command line must start quickly."""

from enum import IntEnum


class Lane(IntEnum):
    """Priority tier; a lower number goes first. Stored."""

    CRITICAL = 0
    HIGH = 1
    DEFAULT = 2
    LOW = 3
