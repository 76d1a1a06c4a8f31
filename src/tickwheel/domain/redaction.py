"""Addresses with the passwords taken out, for everything that is shown or logged.

Example: `postgresql://app:secret@db/jobs?sslpassword=x` is shown as `postgresql://app:***@db/jobs?sslpassword=***`.

Passwords are often pasted in as they are, with characters that should be written as %40 or %3F. So the last @ ends
the user's part, whatever is in it; only where hosts with their ports come first, and an option's name after them,
is a later @ one of the options.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

HIDDEN: Final = "***"
_HOST: Final = re.compile(r"[^:@/?]*(?::[0-9]{1,5})?")
_SECRET_WORDS: Final = ("password", "passwd", "secret", "token")
SHORTEST_CHARS: Final = 3
"""A shorter password isn't searched for in messages: half of all words hold it, and the gaps would show it."""


class _Parts(NamedTuple):
    scheme: str
    user_part: str
    at: str  # "@", or nothing
    hosts: str
    options: list[str]  # of the query, as they are written
    has_query: bool


def redacted(url: str) -> str:
    """The address without its password and without secret parameters."""
    parts = _parts_of(url)
    if parts is None:
        return url
    user, colon, _ = parts.user_part.partition(":")
    shown_user = f"{user}{colon}{HIDDEN if colon else ''}"
    options = "&".join(f"{name}={HIDDEN}" if secret else name for name, secret in map(_secret_in, parts.options))
    query = f"?{options}" if parts.has_query else ""
    return f"{parts.scheme}://{shown_user}{parts.at}{parts.hosts}{query}"


def without_passwords(message: str, url: str) -> str:
    """The message of a driver or a server, with this address's passwords taken out."""
    for secret in sorted(set(_passwords_in(url)), key=len, reverse=True):
        if len(secret) >= SHORTEST_CHARS:
            message = message.replace(secret, HIDDEN)
    return message


def has_odd_user_part(url: str, odd: str = "/?#") -> bool:
    """Whether a user or password holds a character that ends it for most readers, who take the rest for a host."""
    parts = _parts_of(url)
    return parts is not None and any(sign in parts.user_part for sign in odd)


def _passwords_in(url: str) -> Iterator[str]:
    """As written, and as they are decoded."""
    parts = _parts_of(url)
    if parts is None:
        return
    written = [secret for _, secret in map(_secret_in, parts.options) if secret]
    for secret in (parts.user_part.partition(":")[2], *written):
        yield secret
        yield unquote(secret)


def _parts_of(url: str) -> _Parts | None:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return None
    place, mark, query = rest.partition("?")
    in_options = "=" in query.partition("@")[0] and _is_hosts(place.rpartition("@")[2])
    if "@" in query and not in_options:
        user_part, at, rest = rest.rpartition("@")
        hosts, mark, query = rest.partition("?")
    else:
        user_part, at, hosts = place.rpartition("@")
    return _Parts(scheme, user_part, at, hosts, query.split("&"), bool(mark))


def _is_hosts(place: str) -> bool:
    """Whether it begins as the place of servers does, and not as user and password."""
    return all(_HOST.fullmatch(host) for host in place.partition("/")[0].split(","))


def _secret_in(option: str) -> tuple[str, str]:
    """(name, value) of an option that holds a secret; else (the option, "")."""
    name, equals, value = option.partition("=")
    if equals and value and any(word in name.lower() for word in _SECRET_WORDS):
        return name, value
    return option, ""
