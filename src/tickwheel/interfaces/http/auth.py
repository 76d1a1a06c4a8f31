"""From a request's headers to its principal.

A browser can't be given a bearer token, so the pages accept it as the password of HTTP Basic too. The API itself
doesn't: browsers attach Basic credentials to requests that other sites make.
"""

import binascii
from typing import Final

from tickwheel.domain.access import ANONYMOUS, Principal, Scope
from tickwheel.interfaces.http.wire import Refusal
from tickwheel.ports.tokens import TokenRefused
from tickwheel.services.authentication import Authentication

_BEARER: Final = b"bearer "
_BASIC: Final = b"basic "


async def principal_of(
    authentication: Authentication, authorization: bytes | None, *, allow_basic: bool
) -> Principal:
    """Whose request it is, by the Authorization header. Raises the 401 `Refusal`."""
    if authorization is None:
        if not authentication.required:
            return ANONYMOUS
        authentication.refused["no_token"] += 1
        raise _unauthorized("This server needs a token.", allow_basic=allow_basic)
    given = _token_in(authorization, allow_basic=allow_basic)
    if given is None:
        if not authentication.required:
            return ANONYMOUS
        authentication.refused["bad_header"] += 1
        raise _unauthorized("The Authorization header is not `Bearer <token>`.", allow_basic=allow_basic)
    known = authentication.recall(given)
    if known is not None:
        return known
    try:
        return await authentication.find(given)
    except TokenRefused as refusal:
        raise _unauthorized(str(refusal), allow_basic=allow_basic) from None


def still_holds(authentication: Authentication, authorization: bytes | None) -> bool:
    """Whether the token of a request that was let in, and then waited, is good now."""
    given = None if authorization is None else _token_in(authorization, allow_basic=False)
    return not authentication.required if given is None else authentication.still_holds(given)


def require(principal: Principal, scope: Scope | None, *, for_installation: bool) -> None:
    """Raise the 403 `Refusal` unless the principal has the scope, and all tenants where it needs them."""
    if scope is not None and not principal.may(scope):
        raise Refusal("forbidden", f"This token does not have the scope {scope.value}.")
    if for_installation and principal.tenant_id is not None:
        raise Refusal("forbidden", "This is about the whole installation: it needs a token for all tenants.")


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
