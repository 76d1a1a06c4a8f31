"""Translates what the driver raises into the errors of the store port."""

from typing import Final

import apsw

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable

_MEANINGS: Final[dict[type[apsw.Error], str]] = {
    apsw.FullError: "the disk is full",
    apsw.BusyError: "the database is locked by another process",
    apsw.LockedError: "the database is locked",
    apsw.ReadOnlyError: "the database cannot be written to",
    apsw.CorruptError: "the database file is damaged",
    apsw.NotADBError: "the file is not a Tickwheel database",
    apsw.CantOpenError: "the database file cannot be opened",
    apsw.IOError: "reading or writing the database failed",
    apsw.NoMemError: "memory ran out",
}

_SURE_AT_COMMIT: Final = (apsw.FullError, apsw.BusyError)
"""The commit record was certainly not written: space ran out before it, or the commit never began."""


def translate(error: apsw.Error, *, committing: bool = False) -> StoreUnavailable:
    """What callers see. `committing`: the error came from COMMIT, so the write may be on disk all the same."""
    meaning = next((text for kind, text in _MEANINGS.items() if isinstance(error, kind)), "the store failed")
    message = f"{meaning} ({error})"
    if committing and not isinstance(error, _SURE_AT_COMMIT):
        return OutcomeUnknown(message)
    return StoreUnavailable(message)
