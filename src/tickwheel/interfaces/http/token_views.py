"""How API keys are shown."""

from msgspec.structs import asdict

from tickwheel.interfaces.http.access_bodies import IssuedTokenBody, TokenBody
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.services.api_keys import Issued, KeyView


def token_body(view: KeyView) -> TokenBody:
    """A key without its secret."""
    key = view.key
    scopes = key.principal(view.key_id, view.tenant_id).scopes
    return TokenBody(
        token_id=view.key_id,
        tenant_id=view.tenant_id or None,
        label=key.label,
        role=key.role.value,
        scopes=sorted(scope.value for scope in scopes),
        created_at=iso_text(key.created_ms),
        expires_at=iso(key.expires_ms),
        last_used_at=iso(view.used_ms or None),
        old_secret_until=iso(key.old_until_ms or None),
    )


def issued_body(issued: Issued) -> IssuedTokenBody:
    """A key with its secret, this once."""
    return IssuedTokenBody(token=issued.text, **asdict(token_body(issued.view)))
