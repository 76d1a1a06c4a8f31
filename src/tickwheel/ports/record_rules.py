"""Which puts of a record are refused: the same in every store."""

from tickwheel.domain.errors import Conflict, NotFound, VersionMismatch
from tickwheel.ports.registry import Record


def check_put(record: Record, stored_version: int | None, expected_version: int | None) -> None:
    """Raise as `Registry.put_record` does; `stored_version` None: there is no such record."""
    what = f"{record.kind.replace('_', ' ')} {record.name!r}"
    if expected_version is None:
        return
    if expected_version == 0:
        if stored_version is not None:
            raise Conflict(f"there is a {what} already")
    elif stored_version is None:
        raise NotFound(f"there is no {what}")
    elif stored_version != expected_version:
        raise VersionMismatch(f"the {what} is at version {stored_version}, not {expected_version}; read it again")
