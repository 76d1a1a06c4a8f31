"""Zone names and zone data, always those of the `tzdata` package.

`ZoneInfo("Europe/Berlin")` prefers the machine's own zone files, so two nodes could answer the same question
differently. Here the bytes come from the installed `tzdata` distribution alone, the search path of `zoneinfo`
stays as it is, and a name is looked up in the package's list before any file is opened, so a name can't be a path.
"""

import difflib
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from io import BytesIO
from zoneinfo import ZoneInfo

_NOT_PLACES = frozenset({"Factory", "localtime", "posixrules"})
_LONGEST_NAME = 64
_SHORTEST_GUESSED = 5


class UnknownZoneError(ValueError):
    """The name isn't one of the IANA zones of the installed `tzdata`; the message suggests one."""

    def __init__(self, name: str, suggestion: str | None) -> None:
        self.name = name
        self.suggestion = suggestion
        shown = ascii(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "...")
        remedy = f"did you mean {suggestion!r}?" if suggestion else "use a name such as 'Europe/Berlin' or 'UTC'"
        super().__init__(f"{shown} is not an IANA time zone of tzdata {tzdata_version()}; {remedy}")


def tzdata_version() -> str:
    """The IANA release that all answers rest on, such as `2026f`."""
    version: str = import_module("tzdata").IANA_VERSION
    return version


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every zone name that a job may use, links such as `US/Eastern` included."""
    listed = files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return frozenset(listed) - _NOT_PLACES


def zone_bytes(name: str) -> bytes:
    """The TZif file of `name`. Raises UnknownZoneError, before touching any file, for a name not in the list."""
    if name not in zone_names():
        raise UnknownZoneError(name, _closest(name))
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The zone called `name` (case counts), read from the `tzdata` package. Raises UnknownZoneError."""
    return ZoneInfo.from_file(BytesIO(zone_bytes(name)), key=name)


@lru_cache(maxsize=1)
def _names_by_lower() -> dict[str, str]:
    return {name.lower(): name for name in sorted(zone_names())}


def _closest(name: str) -> str | None:
    if len(name) > _LONGEST_NAME:
        return None
    by_lower = _names_by_lower()
    wanted = name.strip().lower().replace(" ", "_")
    if wanted in by_lower:
        return by_lower[wanted]
    places = {lower: full for lower, full in by_lower.items() if "/" in lower and not lower.startswith("etc/")}
    places |= {lower.rsplit("/", 1)[-1]: full for lower, full in places.items()}
    if wanted in places:
        return places[wanted]
    # Abbreviations and offsets are not guessed: what is spelt nearest to CEST or UTC+2 means another time.
    if len(wanted) < _SHORTEST_GUESSED or not wanted.replace("/", "").replace("_", "").isalpha():
        return None
    close = difflib.get_close_matches(wanted, places, n=1, cutoff=0.7)
    return places[close[0]] if close else None
