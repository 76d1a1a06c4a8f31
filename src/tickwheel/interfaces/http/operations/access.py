"""Tokens, and the audit log."""

from typing import Any, Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import CURSOR, LIMIT, TENANT, Body, Operation, Param, Reply

_TAG: Final = "Access"
_BODY_PROBLEMS: Final = (
    "malformed_json",
    "incomplete_body",
    "body_too_large",
    "unsupported_media_type",
    "invalid_request",
    "forbidden",
    "store_unavailable",
    "outcome_unknown",
)
_TOKEN: Final[dict[str, Any]] = {
    "token_id": "k3v9q2m7x4tz",
    "tenant_id": "default",
    "label": "orders service",
    "role": "scheduler",
    "scopes": ["jobs:read", "jobs:write", "runs:read", "tenants:read"],
    "created_at": "2025-11-29T16:45:00.000Z",
    "expires_at": "2026-11-29T16:45:00.000Z",
    "last_used_at": None,
    "old_secret_until": None,
}
_ISSUED: Final = {**_TOKEN, "token": "tw_k3v9q2m7x4tz_<secret>"}
_TOKEN_ID: Final = Param(
    "token_id",
    "path",
    "The public part of the token, between the underscores.",
    {"type": "string", "minLength": 1},
    "k3v9q2m7x4tz",
    required=True,
)
_ANY_TENANT: Final = Param(
    "tenant_id",
    "query",
    "Only this tenant's; all that the token may see if it is left out.",
    TENANT.schema | {"default": None},
)


def _filter(name: str, description: str, example: str) -> Param:
    return Param(name, "query", description, {"type": "string", "minLength": 1}, example)


ACCESS_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/whoami",
        name="whoami",
        tag=_TAG,
        summary="Show whose token this is",
        replies=(
            Reply(
                200,
                "The principal.",
                "PrincipalBody",
                {"principal": "key:k3v9q2m7x4tz", "tenant_id": "default", "scopes": _TOKEN["scopes"]},
            ),
        ),
        problems=("invalid_request",),
    ),
    Operation(
        method="GET",
        path="/v1/tokens",
        name="list_tokens",
        scope=Scope.TOKENS_WRITE,
        tag=_TAG,
        summary="List API keys",
        description="Without their secrets, which are not stored. `last_used_at` may be a minute behind.",
        params=(_ANY_TENANT,),
        replies=(Reply(200, "The keys, oldest first.", "TokenList", {"tokens": [_TOKEN]}),),
        problems=("invalid_request", "not_found", "forbidden", "store_unavailable"),
    ),
    Operation(
        method="POST",
        path="/v1/tokens",
        name="create_token",
        scope=Scope.TOKENS_WRITE,
        tag=_TAG,
        summary="Make an API key",
        description="The answer has the `token`, once: only its hash is stored. A token can make others of its "
        "own tenant with scopes that it has itself. Roles: `reader`, `scheduler` (reads, and creates, changes and "
        "cancels jobs), `operator` (that, and cancels and redrives runs, sees workers, metrics and the audit "
        "log), `admin` (everything), `worker` (polls for runs, and nothing else). `scopes` takes some of the "
        "role's away. `all_tenants` makes a token for the whole installation.",
        body=Body(
            "TokenRequest", {"role": "scheduler", "label": "orders service", "expires_in_seconds": 31_536_000}
        ),
        replies=(Reply(201, "The token, this once.", "IssuedTokenBody", _ISSUED),),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/tokens/{token_id}",
        name="get_token",
        scope=Scope.TOKENS_WRITE,
        tag=_TAG,
        summary="Show an API key",
        params=(_TOKEN_ID,),
        replies=(Reply(200, "The key.", "TokenBody", _TOKEN),),
        problems=("not_found", "invalid_request", "forbidden", "store_unavailable"),
    ),
    Operation(
        method="POST",
        path="/v1/tokens/{token_id}/rotate",
        name="rotate_token",
        scope=Scope.TOKENS_WRITE,
        tag=_TAG,
        summary="Give an API key a new secret",
        description="Role, tenant and id stay. The old secret holds for `grace_seconds` more, a day if nothing is "
        "said: time to bring the new one everywhere.",
        params=(_TOKEN_ID,),
        body=Body("RotateRequest", {"grace_seconds": 3_600}, required=False),
        replies=(Reply(200, "The token, this once.", "IssuedTokenBody", _ISSUED),),
        problems=("not_found", *_BODY_PROBLEMS),
    ),
    Operation(
        method="DELETE",
        path="/v1/tokens/{token_id}",
        name="revoke_token",
        scope=Scope.TOKENS_WRITE,
        tag=_TAG,
        summary="Revoke an API key",
        description="This node refuses it at once, all others within about a second.",
        params=(_TOKEN_ID,),
        replies=(Reply(204, "It is revoked."),),
        problems=("not_found", "invalid_request", "forbidden", "store_unavailable", "outcome_unknown"),
    ),
    Operation(
        method="GET",
        path="/v1/audit-log",
        name="audit_log",
        scope=Scope.AUDIT_READ,
        tag=_TAG,
        summary="Read who changed what",
        description="Every change of jobs, runs, tokens, tenants and signing secrets, newest first; written in "
        "the transaction of the change itself. `before` and `after` hold what differs, without payloads, header "
        "values and secrets.",
        params=(
            _ANY_TENANT,
            _filter("action", "A whole action, or what one begins with up to the dot.", "job."),
            _filter("actor", "Who did it: `key:<id>`, `jwt:<subject>`, `token` or `anonymous`.", "token"),
            _filter("subject", "The id of what was changed.", examples.JOB_ID),
            _filter("from", "Not before this instant.", "2025-11-29T00:00:00Z"),
            _filter("to", "Before this instant.", "2025-11-30T00:00:00Z"),
            LIMIT,
            CURSOR,
        ),
        replies=(
            Reply(
                200,
                "A page.",
                "AuditLogBody",
                {
                    "entries": [
                        {
                            "number": 4711,
                            "at": "2025-11-29T16:45:00.000Z",
                            "tenant_id": "default",
                            "actor": "key:k3v9q2m7x4tz",
                            "actor_label": "orders service",
                            "source": "192.0.2.7",
                            "action": "job.pause",
                            "subject": examples.JOB_ID,
                            "before": {"status": "SCHEDULED"},
                            "after": {"status": "PAUSED"},
                        }
                    ],
                    "next_cursor": None,
                },
            ),
        ),
        problems=("bad_cursor", "not_found", "invalid_request", "forbidden", "store_unavailable"),
    ),
)
