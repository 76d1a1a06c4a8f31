"""Static bearer tokens.

All configured tokens are compared, each in constant time, so neither the bytes nor the position of a token shows
in how long the answer takes. Without any token configured the API is open (the server then refuses to listen
beyond loopback, unless it is told to).

A browser can't be given a bearer token, so the pages accept it as the password of HTTP Basic too. The API itself
doesn't: browsers attach Basic credentials to requests that other sites make.
"""

import binascii
import hmac
from collections.abc import Iterable
from typing import Final

from tickwheel.interfaces.http.wire import Refusal

_BEARER: Final = b"bearer "
_BASIC: Final = b"basic "


class Tokens:
    """The tokens that open the API; none at all = open to everybody."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        self._tokens = tuple(token.encode() for token in tokens)

    def check(self, authorization: bytes | None, *, allow_basic: bool) -> None:
        """Raise the 401 `Refusal` unless the header carries a known token."""
        if not self._tokens:
            return
        if authorization is None:
            raise _unauthorized("This server needs a token.", allow_basic=allow_basic)
        given = _token_in(authorization, allow_basic=allow_basic)
        if given is None:
            raise _unauthorized("The Authorization header is not `Bearer <token>`.", allow_basic=allow_basic)
        if not self._knows(given):
            raise _unauthorized("The token is not known.", allow_basic=allow_basic)

    def _knows(self, given: bytes) -> bool:
        known = False
        for token in self._tokens:
            known |= hmac.compare_digest(token, given)
        return known


def _token_in(authorization: bytes, *, allow_basic: bool) -> bytes | None:
    scheme = authorization[:7].lower()
    if scheme == _BEARER:
        return authorization[7:].strip()
    if allow_basic and scheme[:6] == _BASIC:
        try:
            decoded = binascii.a2b_base64(authorization[6:].strip(), strict_mode=True)
        except binascii.Error:
            return None
        return decoded.partition(b":")[2]
    return None


def _unauthorized(detail: str, *, allow_basic: bool) -> Refusal:
    challenge = b'Bearer realm="tickwheel"'
    if allow_basic:
        challenge += b', Basic realm="Tickwheel: the token is the password", charset="UTF-8"'
    return Refusal("unauthorized", detail, headers=((b"www-authenticate", challenge),))
