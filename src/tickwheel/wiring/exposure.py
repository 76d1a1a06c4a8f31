"""What others on this machine may do with the data of an embedded store."""

import shlex

from tickwheel.config import Settings
from tickwheel.wiring.schema import sqlite_path
from tickwheel.wiring.stores import store_url


def exposure_of(settings: Settings) -> tuple[str, str]:
    """What is open to others, and the remedy; two empty texts if nothing is. Changes nothing."""
    scheme, _, rest = store_url(settings).partition(":")
    if scheme != "sqlite":
        return "", ""
    from tickwheel.adapters.sqlite.folder import find_open_paths

    folder = sqlite_path(rest)
    found = find_open_paths(folder)
    if not found:
        return "", ""
    return f"open to others on this machine: {', '.join(found)}", f"chmod -R go= {shlex.quote(str(folder))}"
