"""What goes over the wire about tokens and the audit log."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwheel.domain.access import Role, Scope
from tickwheel.domain.limits import NAME_CHARS, TENANT_CHARS

TOKEN_SECONDS_MIN: Final = 60
TOKEN_SECONDS_MAX: Final = 10 * 366 * 86_400
GRACE_SECONDS_DEFAULT: Final = 86_400
GRACE_SECONDS_MAX: Final = 90 * 86_400


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new API key. Without `scopes` it has all of its role's; `all_tenants` takes the place of `tenant_id`."""

    role: Role
    scopes: Annotated[list[Scope], Meta(max_length=len(Scope))] = []
    label: Annotated[str, Meta(max_length=NAME_CHARS)] = ""
    tenant_id: Annotated[str, Meta(min_length=1, max_length=TENANT_CHARS)] | None = None
    all_tenants: bool = False
    expires_in_seconds: Annotated[int, Meta(ge=TOKEN_SECONDS_MIN, le=TOKEN_SECONDS_MAX)] | None = None


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """For how long the old secret still holds."""

    grace_seconds: Annotated[int, Meta(ge=0, le=GRACE_SECONDS_MAX)] = GRACE_SECONDS_DEFAULT


class TokenBody(msgspec.Struct, kw_only=True):
    """An API key without its secret; `tenant_id` null: for all tenants."""

    token_id: str
    tenant_id: str | None
    label: str
    role: str
    scopes: list[str]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    old_secret_until: str | None


class IssuedTokenBody(TokenBody, kw_only=True):
    """The same with the `token` to send, which is told this once."""

    token: str


class TokenList(msgspec.Struct):
    """The keys, oldest first."""

    tokens: list[TokenBody]


class PrincipalBody(msgspec.Struct):
    """Whose token it is that the request was sent with."""

    principal: str
    tenant_id: str | None
    scopes: list[str]


class AuditEntryBody(msgspec.Struct):
    """One change: who did what to what, from which address, and how it was before and after.

    `actor_label` is what the key of the actor is or was called.
    """

    number: int
    at: str
    tenant_id: str
    actor: str
    actor_label: str | None
    source: str
    action: str
    subject: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None


class AuditLogBody(msgspec.Struct):
    """A page, newest first; it may be short and still have a cursor."""

    entries: list[AuditEntryBody]
    next_cursor: str | None


ACCESS_TYPES: Final[tuple[Any, ...]] = (
    TokenRequest,
    RotateRequest,
    TokenBody,
    IssuedTokenBody,
    TokenList,
    PrincipalBody,
    AuditLogBody,
)
"""What the OpenAPI document describes from here."""
