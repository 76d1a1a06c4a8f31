"""What goes over the wire about signing secrets."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwheel.domain.limits import SECRET_NAME_CHARS
from tickwheel.services.signing_secrets import OVERLAP_SECONDS, OVERLAP_SECONDS_MAX

VALUE_CHARS: Final = 128
_Value = Annotated[str, Meta(max_length=VALUE_CHARS)] | None


class SecretRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new signing secret. `value`: one of yours (`whsec_…`), else it is random."""

    name: Annotated[str, Meta(min_length=1, max_length=SECRET_NAME_CHARS)]
    value: _Value = None

    def __repr__(self) -> str:
        return f"SecretRequest({self.name!r})"


class RotateSecretRequest(msgspec.Struct, forbid_unknown_fields=True):
    """For how long the key before signs along, and a value of yours."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=OVERLAP_SECONDS_MAX)] = OVERLAP_SECONDS
    value: _Value = None

    def __repr__(self) -> str:
        return f"RotateSecretRequest({self.overlap_seconds})"


class SigningKeyBody(msgspec.Struct):
    """A key that signs, without its value; `until` null: until the secret is rotated."""

    id: str
    created_at: str
    until: str | None


class SecretBody(msgspec.Struct):
    """A signing secret without values; newest key first."""

    name: str
    tenant_id: str
    keys: list[SigningKeyBody]


class MadeSecretBody(msgspec.Struct):
    """The same with the new key's `value`, which is told this once."""

    name: str
    tenant_id: str
    keys: list[SigningKeyBody]
    value: str

    def __repr__(self) -> str:
        return f"MadeSecretBody({self.name!r})"


class SecretList(msgspec.Struct):
    """The tenant's secrets, by name."""

    secrets: list[SecretBody]


SECRET_TYPES: Final[tuple[Any, ...]] = (
    SecretRequest,
    RotateSecretRequest,
    SecretBody,
    MadeSecretBody,
    SecretList,
)
"""What the OpenAPI document describes from here."""
