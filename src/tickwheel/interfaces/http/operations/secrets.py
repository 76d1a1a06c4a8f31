"""Signing secrets."""

from typing import Any, Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import SECRET_NAME_CHARS
from tickwheel.interfaces.http.operations.model import TENANT, Body, Operation, Param, Reply

_TAG: Final = "Secrets"
_NEW_KEY: Final[dict[str, Any]] = {"id": "5f0c3a9d71e2", "created_at": "2025-11-30T09:00:00.000Z", "until": None}
_OLD_KEY: Final[dict[str, Any]] = {
    "id": "9b1e44c07a3d",
    "created_at": "2025-06-01T09:00:00.000Z",
    "until": "2025-12-01T09:00:00.000Z",
}
_SECRET: Final[dict[str, Any]] = {"name": "billing", "tenant_id": "default", "keys": [_NEW_KEY]}
_VALUE: Final = "whsec_<base64>"
_BODY_PROBLEMS: Final = (
    "malformed_json",
    "incomplete_body",
    "body_too_large",
    "unsupported_media_type",
    "invalid_request",
    "not_found",
    "store_unavailable",
    "outcome_unknown",
)
_NAME: Final = Param(
    "secret_name",
    "path",
    "The name of the secret.",
    {"type": "string", "minLength": 1, "maxLength": SECRET_NAME_CHARS},
    "billing",
    required=True,
)

SECRET_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/secrets",
        name="list_secrets",
        scope=Scope.SECRETS_WRITE,
        tag=_TAG,
        summary="List signing secrets",
        description="Names, and which keys sign until when; never values.",
        params=(TENANT,),
        replies=(Reply(200, "The tenant's secrets, by name.", "SecretList", {"secrets": [_SECRET]}),),
        problems=("not_found", "invalid_request", "store_unavailable"),
    ),
    Operation(
        method="POST",
        path="/v1/secrets",
        name="create_secret",
        scope=Scope.SECRETS_WRITE,
        tag=_TAG,
        summary="Make a signing secret",
        description="A job names it in `target.signing_secret`; the one called `default` signs what names none. "
        "Its value, random unless you give one, is in this answer and in no other.",
        params=(TENANT,),
        body=Body("SecretRequest", {"name": "billing"}),
        replies=(Reply(201, "It signs from now on.", "MadeSecretBody", {**_SECRET, "value": _VALUE}),),
        problems=(*_BODY_PROBLEMS, "conflict"),
    ),
    Operation(
        method="POST",
        path="/v1/secrets/{secret_name}/rotate",
        name="rotate_secret",
        scope=Scope.SECRETS_WRITE,
        tag=_TAG,
        summary="Give a signing secret a new key",
        description="Requests carry a signature by the new key and one by the key before until `overlap_seconds` "
        "are over (a day unless you say otherwise; 0 drops the old key at once), so receivers can take the new "
        "value over at any time in between. A key before that one is dropped at once.",
        params=(_NAME, TENANT),
        body=Body("RotateSecretRequest", {"overlap_seconds": 86_400}, required=False),
        replies=(
            Reply(
                200,
                "The new key signs from now on.",
                "MadeSecretBody",
                {**_SECRET, "keys": [_NEW_KEY, _OLD_KEY], "value": _VALUE},
            ),
        ),
        problems=(*_BODY_PROBLEMS, "version_mismatch"),
    ),
    Operation(
        method="DELETE",
        path="/v1/secrets/{secret_name}",
        name="delete_secret",
        scope=Scope.SECRETS_WRITE,
        tag=_TAG,
        summary="Delete a signing secret",
        description="Runs of jobs that name it are not sent from then on: their attempts fail, to be tried again.",
        params=(_NAME, TENANT),
        replies=(Reply(204, "It is deleted."),),
        problems=("not_found", "invalid_request", "store_unavailable", "outcome_unknown"),
    ),
)
