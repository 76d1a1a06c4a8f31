"""Which tokens are accepted, and which of their claims say whose they are."""

from dataclasses import dataclass, field
from typing import Final

from tickwheel.domain.access import Role

LEEWAY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """`key_set` is a file or an https address of the issuer's public keys (JWKS), `secret` a shared one (HS256).

    `audience` has to be one of the token's `aud`; `issuer`, if set, its `iss`. Claims are names, or paths with
    dots (`realm_access.roles`). With `all_tenants` a tenant claim of `*` stands for all of them; `default_role` is
    for tokens without one.
    """

    audience: str
    issuer: str = ""
    key_set: str = ""
    secret: str = field(default="", repr=False)
    leeway_s: int = LEEWAY_SECONDS
    tenant_claim: str = "tenant_id"
    role_claim: str = "role"
    all_tenants: bool = False
    default_role: Role | None = None
