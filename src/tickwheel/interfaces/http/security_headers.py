"""What every answer tells browsers, whatever made it.

Answers hold what one token may see, so nobody keeps them, and no page of another site may frame or sniff them. An
answer that needs something else says so itself (pages have styles, assets are kept for minutes). There is no
header of CORS: a script of another site can't read an answer, nor send a request that needs asking first.
"""

from collections.abc import Sequence
from typing import Final

from tickwheel.interfaces.http.wire import Header

_ALWAYS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_UNLESS_SAID: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_ALL: Final = _ALWAYS + _UNLESS_SAID
_MAY_BE_SAID: Final = frozenset(name for name, _ in _UNLESS_SAID)


def with_security(headers: Sequence[Header]) -> list[Header]:
    """These headers, and those that are missing."""
    for name, _ in headers:
        if name in _MAY_BE_SAID:
            said = {name for name, _ in headers}
            return [*headers, *_ALWAYS, *(header for header in _UNLESS_SAID if header[0] not in said)]
    return [*headers, *_ALL]
