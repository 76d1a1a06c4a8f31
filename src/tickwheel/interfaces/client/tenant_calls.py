"""Requests about tenants, as values. A name of None stands for the defaults of all of them."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tickwheel.interfaces.client import tenant_models as models
from tickwheel.interfaces.client.calls import Call

_tenant: Final = msgspec.json.Decoder(models.Tenant).decode
_defaults: Final = msgspec.json.Decoder(models.TenantDefaults).decode
_tenants: Final = msgspec.json.Decoder(models.TenantList).decode
_usage: Final = msgspec.json.Decoder(models.TenantUsage).decode


def list_tenants() -> Call[models.TenantList]:
    """GET /v1/tenants."""
    return Call(method="GET", path="/v1/tenants", read=_tenants)


def get_tenant(tenant_id: str | None) -> Call[models.Tenant | models.TenantDefaults]:
    """GET /v1/tenants/{id} or /v1/tenant-defaults."""
    return Call(method="GET", path=_path(tenant_id), read=_defaults if tenant_id is None else _tenant)


def put_tenant(
    tenant_id: str | None, record: Mapping[str, Any], if_version: int | None = None
) -> Call[models.Tenant | models.TenantDefaults]:
    """PUT /v1/tenants/{id} or /v1/tenant-defaults: the whole record."""
    return Call(
        method="PUT",
        path=_path(tenant_id),
        body=msgspec.json.encode(record),
        if_match=None if if_version is None else f'"{if_version}"',
        repeatable=if_version is None,
        read=_defaults if tenant_id is None else _tenant,
    )


def delete_tenant(tenant_id: str | None) -> Call[None]:
    """DELETE /v1/tenants/{id} or /v1/tenant-defaults."""
    return Call(method="DELETE", path=_path(tenant_id), gone_is_done=True, read=_nothing)


def tenant_usage(tenant_id: str) -> Call[models.TenantUsage]:
    """GET /v1/tenants/{id}/usage."""
    return Call(method="GET", path=f"{_path(tenant_id)}/usage", read=_usage)


def _path(tenant_id: str | None) -> str:
    return "/v1/tenant-defaults" if tenant_id is None else f"/v1/tenants/{quote(tenant_id, safe='')}"


def _nothing(body: bytes) -> None:
    """Of an answer without a body."""
