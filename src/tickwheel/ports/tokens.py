"""Tokens that another system issued (JWT), judged without asking it."""

from typing import NamedTuple, Protocol

from tickwheel.domain.access import Principal


class TokenRefused(Exception):
    """The token is not accepted; the text says why, and never quotes the token."""


class Verified(NamedTuple):
    """Whose token it is, and until when (UTC epoch ms) it may be remembered."""

    principal: Principal
    until_ms: int


class TokenVerifier(Protocol):
    """Judges tokens."""

    async def verify(self, token: str, now_ms: int) -> Verified:
        """Raises `TokenRefused`. May fetch the issuer's keys once in a while."""
        ...
