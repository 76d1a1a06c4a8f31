"""Tenants: limits, shares, egress policies, and what is used."""

from typing import Any, Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import TENANT_CHARS
from tickwheel.interfaces.http.operations.model import IF_MATCH, Body, Operation, Param, Reply

_TAG: Final = "Tenants"
_READ_PROBLEMS: Final = ("not_found", "invalid_request", "store_unavailable")
_WRITE_PROBLEMS: Final = (
    "forbidden",
    "malformed_json",
    "incomplete_body",
    "body_too_large",
    "unsupported_media_type",
    "invalid_request",
    "not_found",
    "version_mismatch",
    "store_unavailable",
    "outcome_unknown",
)
_DELETE_PROBLEMS: Final = ("forbidden", "not_found", "invalid_request", "store_unavailable", "outcome_unknown")
_TENANT: Final = Param(
    "tenant_id",
    "path",
    "The tenant. It needs no record: any name is a tenant's.",
    {"type": "string", "minLength": 1, "maxLength": TENANT_CHARS},
    "acme",
    required=True,
)
_REQUEST: Final[dict[str, Any]] = {
    "limits": {"max_jobs": 100_000, "requests_per_second": 200, "due_per_second": 500, "concurrency": 50},
    "egress": {"allow": ["*.acme.example"]},
    "note": "pays for the small plan",
}
_LIMITS: Final[dict[str, Any]] = {
    "max_jobs": 100_000,
    "max_payload_bytes": None,
    "payload_bytes_per_second": None,
    "requests_per_second": 200,
    "requests_burst": None,
    "due_per_second": 500,
    "concurrency": 50,
    "weight": None,
}
_EGRESS: Final[dict[str, Any]] = {"allow": ["*.acme.example"], "allow_private": None, "proxy": None}
_RECORD: Final[dict[str, Any]] = {
    "limits": _LIMITS,
    "egress": _EGRESS,
    "disabled": False,
    "note": "pays for the small plan",
    "version": 1,
    "updated_at": "2025-11-30T09:00:00.000Z",
}
_TENANT_BODY: Final[dict[str, Any]] = {
    "tenant_id": "acme",
    **_RECORD,
    "effective": {
        "limits": {**_LIMITS, "max_payload_bytes": 65_536},
        "egress": _EGRESS,
        "disabled": False,
    },
}
_DEFAULTS: Final[dict[str, Any]] = {
    **_RECORD,
    "limits": {**dict.fromkeys(_LIMITS), "max_payload_bytes": 65_536},
    "egress": None,
    "note": "",
}


def _used(limit: str, allowed: int | None, used: int | None) -> dict[str, Any]:
    return {"limit": limit, "allowed": allowed, "used": used, "at_least": False}


_USAGE: Final[dict[str, Any]] = {
    "tenant_id": "acme",
    "disabled": False,
    "limits": [
        _used("max_jobs", 100_000, 8_214),
        _used("max_payload_bytes", 65_536, None),
        _used("payload_bytes_per_second", None, 0),
        _used("requests_per_second", 200, 17),
        _used("due_per_second", 500, 3),
        _used("concurrency", 50, 12),
    ],
    "requests_last_minute": 944,
    "refused": {"requests_per_second": 5},
}

TENANT_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/tenants",
        name="list_tenants",
        scope=Scope.TENANTS_READ,
        tag=_TAG,
        summary="List tenants",
        description="Those that have a record; a tenant without one has what the defaults give. A token of one "
        "tenant sees that one only.",
        replies=(
            Reply(200, "The tenants, by name.", "TenantList", {"tenants": [_TENANT_BODY], "defaults": _DEFAULTS}),
        ),
        problems=("invalid_request", "store_unavailable"),
    ),
    Operation(
        method="GET",
        path="/v1/tenants/{tenant_id}",
        name="get_tenant",
        scope=Scope.TENANTS_READ,
        tag=_TAG,
        summary="Show a tenant",
        description="Its record, and in `effective` what holds for it.",
        params=(_TENANT,),
        replies=(Reply(200, "The tenant.", "TenantBody", _TENANT_BODY, headers=("ETag",)),),
        problems=_READ_PROBLEMS,
    ),
    Operation(
        method="PUT",
        path="/v1/tenants/{tenant_id}",
        name="put_tenant",
        scope=Scope.TENANTS_WRITE,
        for_installation=True,
        tag=_TAG,
        summary="Set the record of a tenant",
        description="It replaces the one before: what is left out has the defaults again. It holds on this node "
        "at once, on all others within about a second. Whoever is `disabled` is served nothing, and its runs wait "
        "until it is enabled.",
        params=(_TENANT, IF_MATCH),
        body=Body("TenantRequest", _REQUEST),
        replies=(Reply(200, "The tenant as it is now.", "TenantBody", _TENANT_BODY, headers=("ETag",)),),
        problems=_WRITE_PROBLEMS,
    ),
    Operation(
        method="DELETE",
        path="/v1/tenants/{tenant_id}",
        name="delete_tenant",
        scope=Scope.TENANTS_WRITE,
        for_installation=True,
        tag=_TAG,
        summary="Delete the record of a tenant",
        description="The defaults hold for it then. Its jobs, keys and secrets stay.",
        params=(_TENANT,),
        replies=(Reply(204, "It is deleted."),),
        problems=_DELETE_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/tenants/{tenant_id}/usage",
        name="get_tenant_usage",
        scope=Scope.TENANTS_READ,
        tag=_TAG,
        summary="Show what a tenant uses",
        description="Every limit with what is used of it. Jobs and runs in flight are counted in the store; "
        "requests, payloads, refusals and runs due in this second are what the node that answers has seen.",
        params=(_TENANT,),
        replies=(Reply(200, "Each limit.", "UsageBody", _USAGE),),
        problems=_READ_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/tenant-defaults",
        name="get_tenant_defaults",
        scope=Scope.TENANTS_READ,
        for_installation=True,
        tag=_TAG,
        summary="Show the defaults of tenants",
        replies=(Reply(200, "The defaults.", "DefaultsBody", _DEFAULTS, headers=("ETag",)),),
        problems=("forbidden", "invalid_request", "store_unavailable"),
    ),
    Operation(
        method="PUT",
        path="/v1/tenant-defaults",
        name="put_tenant_defaults",
        scope=Scope.TENANTS_WRITE,
        for_installation=True,
        tag=_TAG,
        summary="Set the defaults of tenants",
        description="They hold for each tenant whose own record says nothing else, with a record or without. "
        "Defaults that are `disabled` let only those in that have a record.",
        params=(IF_MATCH,),
        body=Body("TenantRequest", {"limits": {"max_payload_bytes": 65_536}}),
        replies=(Reply(200, "The defaults as they are now.", "DefaultsBody", _DEFAULTS, headers=("ETag",)),),
        problems=_WRITE_PROBLEMS,
    ),
    Operation(
        method="DELETE",
        path="/v1/tenant-defaults",
        name="delete_tenant_defaults",
        scope=Scope.TENANTS_WRITE,
        for_installation=True,
        tag=_TAG,
        summary="Delete the defaults of tenants",
        replies=(Reply(204, "They are deleted."),),
        problems=_DELETE_PROBLEMS,
    ),
)
