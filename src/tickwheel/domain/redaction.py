"""Addresses with the passwords taken out, for everything that is shown or logged.

Example: `postgresql://app:secret@db/jobs?sslpassword=x` is shown as `postgresql://app:***@db/jobs?sslpassword=***`.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "***"
_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^?]*)(?P<query>\?.*)?", re.DOTALL)
_SECRET_PARAMETER: Final = re.compile(
    r"(?P<name>[^?&=]*(?:password|passwd|secret|token)[^?&=]*)=(?P<secret>[^&]*)", re.IGNORECASE
)
SHORTEST_CHARS: Final = 3
"""A shorter password isn't searched for in messages: half of all words hold it, and the gaps would show it."""


def redacted(url: str) -> str:
    """The address without its password and without secret parameters."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return url
    # The last @ ends the user's part, so a password with a raw @ or slash in it is hidden as well.
    user_part, at, hosts = found["place"].rpartition("@")
    user, colon, _ = user_part.partition(":")
    shown_user = f"{user}{colon}{HIDDEN if colon else ''}"
    query = _SECRET_PARAMETER.sub(rf"\g<name>={HIDDEN}", found["query"] or "")
    return f"{found['scheme']}://{shown_user}{at}{hosts}{query}"


def without_passwords(message: str, url: str) -> str:
    """The message of a driver or a server, with this address's passwords taken out."""
    for secret in sorted(set(_passwords_in(url)), key=len, reverse=True):
        if len(secret) >= SHORTEST_CHARS:
            message = message.replace(secret, HIDDEN)
    return message


def _passwords_in(url: str) -> Iterator[str]:
    """As written, and as they are decoded."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return
    written = [match["secret"] for match in _SECRET_PARAMETER.finditer(found["query"] or "")]
    for secret in (found["place"].rpartition("@")[0].partition(":")[2], *written):
        yield secret
        yield unquote(secret)
