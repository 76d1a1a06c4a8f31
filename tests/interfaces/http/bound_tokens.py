"""Callers that are bound to a tenant, for tests: their token says to which."""

from tickwheel.domain.access import EVERYTHING, Principal
from tickwheel.ports.tokens import TokenRefused, Verified

from .asgi_client import AsgiClient

FOR_EVER_MS = 1 << 60


class BoundTokens:
    """Implements `ports.tokens.TokenVerifier`: `bound.<tenant in hex>.x` may do everything, for that tenant."""

    async def verify(self, token: str, now_ms: int) -> Verified:
        kind, name, _ = token.split(".")
        if kind != "bound":
            raise TokenRefused("The token is not known.")
        tenant_id = bytes.fromhex(name).decode()
        return Verified(Principal(f"test:{tenant_id}", EVERYTHING, tenant_id), FOR_EVER_MS)


def bound_token(tenant_id: str) -> str:
    """What a caller of that tenant sends."""
    return f"bound.{tenant_id.encode().hex()}.x"


def as_tenant(client: AsgiClient, tenant_id: str) -> AsgiClient:
    """The same server, for a caller that is bound to that tenant."""
    return client.with_token(bound_token(tenant_id))
