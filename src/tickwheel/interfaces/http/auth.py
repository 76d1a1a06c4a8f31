"""From a request's headers to its principal.

A token is a bearer token, never a password of HTTP Basic: browsers attach those to requests of other sites.
"""

from typing import Final

from tickwheel.domain.access import ANONYMOUS, Principal, Scope
from tickwheel.interfaces.http.wire import Refusal
from tickwheel.ports.tokens import TokenRefused
from tickwheel.services.authentication import Authentication

_BEARER: Final = b"bearer "


async def principal_of(authentication: Authentication, authorization: bytes | None) -> Principal:
    """Whose request it is, by the Authorization header. Raises the 401 `Refusal`."""
    if authorization is None:
        if not authentication.required:
            return ANONYMOUS
        authentication.refused["no_token"] += 1
        raise _unauthorized("This server needs a token.")
    given = token_in(authorization)
    if given is None:
        if not authentication.required:
            return ANONYMOUS
        authentication.refused["bad_header"] += 1
        raise _unauthorized("The Authorization header is not `Bearer <token>`.")
    known = authentication.recall(given)
    if known is not None:
        return known
    try:
        return await authentication.find(given)
    except TokenRefused as refusal:
        raise _unauthorized(str(refusal)) from None


def still_holds(authentication: Authentication, authorization: bytes | None) -> bool:
    """Whether the token of a request that was let in, and then waited, is good now."""
    given = None if authorization is None else token_in(authorization)
    return not authentication.required if given is None else authentication.still_holds(given)


def require(principal: Principal, scope: Scope | None, *, for_installation: bool) -> None:
    """Raise the 403 `Refusal` unless the principal has the scope, and all tenants where it needs them."""
    if scope is not None and not principal.may(scope):
        raise Refusal("forbidden", f"This token does not have the scope {scope.value}.")
    if for_installation and principal.tenant_id is not None:
        raise Refusal("forbidden", "This is about the whole installation: it needs a token for all tenants.")


def token_in(authorization: bytes) -> bytes | None:
    """The token of a header; None for what is not `Bearer <token>`."""
    return authorization[7:].strip() if authorization[:7].lower() == _BEARER else None


def _unauthorized(detail: str) -> Refusal:
    return Refusal("unauthorized", detail, headers=((b"www-authenticate", b'Bearer realm="tickwheel"'),))
