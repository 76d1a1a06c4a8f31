"""Translates what the driver raises into the errors of the store port."""

from typing import Final

import psycopg

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable

_MEANINGS: Final = {
    "25P03": "the transaction stood still for too long",
    "25006": "the server takes no writes (a standby, or read-only)",
    "53100": "the server's disk is full",
    "53200": "the server ran out of memory",
    "53300": "the server has too many connections",
    "55P03": "a lock was not to be had in time",
    "57014": "the statement took too long",
    "57P01": "the server is being shut down",
    "57P02": "the server crashed",
    "57P03": "the server is starting or stopping",
    "57P04": "the database was dropped",
    "28000": "the server refused the login",
    "28P01": "the server refused the password",
    "3D000": "there is no such database",
    "42501": "the database user lacks a right that Tickwheel needs",
    "3F000": "the schema tickwheel is not there; run `tickwheel migrate`",
    "42P01": "the schema tickwheel is not complete; run `tickwheel migrate`",
}
RETRIED: Final = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: nothing was written, and the same again may well succeed."""
_ENDED: Final = ("57P01", "57P02", "57P03")
"""The server ended the session: what it was just doing may have been committed before."""


def translate(error: psycopg.Error, *, committing: bool = False) -> StoreUnavailable:
    """What callers see. `committing`: a commit was under way, so the write may have happened all the same."""
    state = error.sqlstate
    meaning = _MEANINGS.get(state or "", "the database refused" if state else "no connection to the database")
    message = f"{meaning} ({str(error).strip() or type(error).__name__})"
    if committing and (state is None or state in _ENDED):
        return OutcomeUnknown(message)
    return StoreUnavailable(message)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the session is gone."""
    return error.sqlstate is None or error.sqlstate in _ENDED
