"""What `tickwheel doctor` says of the keys that stored secrets are sealed under."""

from collections.abc import Iterator
from pathlib import Path

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.findings import Finding, Level
from tickwheel.wiring import find_vault, sqlite_path, store_url

_BACK_UP = "Keep a copy of it apart from the backups of the database: without it the secrets are lost."
_PUT_IT_BACK = "If it ever had one, put it back or give it with --secrets-key-file; if not, the start makes one."
_SET_ONE = (
    "Make one with `tickwheel secrets keygen`, give it to every node and worker with a store "
    "(--secrets-key-file), then run `tickwheel secrets reseal`."
)


def check_secrets(settings: Settings) -> Iterator[Finding]:
    """One finding; none for a store in memory, whose key ends with the process."""
    scheme, _, place = store_url(settings).partition(":")
    if scheme == "memory":
        return
    try:
        vault = find_vault(settings)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("secrets", Level.FAIL, f"{problem.field}: {problem.message}")
        return
    if scheme == "sqlite" and not vault.seals:
        yield _without_key(sqlite_path(place))
    elif not vault.seals:
        text = "stored in the clear: there is no key from outside the database"
        yield Finding("secrets", Level.WARN, text, _SET_ONE)
    else:
        others = vault.key_ids[1:]
        text = f"sealed under the key {vault.key_id}" + (f"; {', '.join(others)} still open" if others else "")
        yield Finding("secrets", Level.OK, text, "" if settings.clustered else _BACK_UP)


def _without_key(folder: Path) -> Finding:
    """A database without its key was restored, or is of a version that sealed nothing."""
    if any(folder.glob("*.db")):
        text = f"{folder} has a database and no key: what is sealed in it can't be opened"
        return Finding("secrets", Level.WARN, text, _PUT_IT_BACK)
    return Finding("secrets", Level.OK, f"the first start makes a key in {folder}", _BACK_UP)
