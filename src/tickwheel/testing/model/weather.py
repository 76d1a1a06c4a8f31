"""What befalls a call to the database: how long each part of it takes, and whether it gets through."""

from enum import Enum
from typing import Protocol


class Fate(Enum):
    """How a call ends."""

    FINE = "fine"
    REFUSED = "refused"  # before anything was written
    ANSWER_LOST = "answer lost"  # after everything was written
    ABORTED = "aborted"  # the transaction was rolled back when it was to commit


class Weather(Protocol):
    """Asked once per call and question, in a fixed order, so that a seed repeats."""

    def fate(self, verb: str) -> Fate:
        """How this call ends."""
        ...

    def way_ms(self, verb: str) -> int:
        """How long a message is on its way."""
        ...

    def open_ms(self, verb: str) -> int:
        """How long the transaction stays open between its statement and its commit."""
        ...


class _Calm:
    """Everything gets through at once."""

    def fate(self, verb: str) -> Fate:
        return Fate.FINE

    def way_ms(self, verb: str) -> int:
        return 1

    def open_ms(self, verb: str) -> int:
        return 0


CALM: Weather = _Calm()
