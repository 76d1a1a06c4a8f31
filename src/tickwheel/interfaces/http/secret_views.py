"""Signing secrets as the API shows them."""

from tickwheel.interfaces.http.secret_bodies import MadeSecretBody, SecretBody, SigningKeyBody
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.services.signing_secrets import Made, SecretView


def secret_body(view: SecretView) -> SecretBody:
    """Without values."""
    return SecretBody(view.name, view.tenant_id, _keys(view))


def made_body(made: Made) -> MadeSecretBody:
    """With the value of the new key."""
    return MadeSecretBody(made.view.name, made.view.tenant_id, _keys(made.view), made.value)


def _keys(view: SecretView) -> list[SigningKeyBody]:
    return [SigningKeyBody(key.id, iso_text(key.created_ms), iso(key.until_ms)) for key in view.keys]
