"""What the API answers about tenants, as typed values."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None: no limit."""

    max_jobs: int | None = None
    max_payload_bytes: int | None = None
    payload_bytes_per_second: int | None = None
    requests_per_second: int | None = None
    requests_burst: int | None = None
    due_per_second: int | None = None
    concurrency: int | None = None
    weight: float | None = None


class Egress(msgspec.Struct, frozen=True, kw_only=True):
    """What webhooks may call. None: as the server's settings say."""

    allow: tuple[str, ...] | None = None
    allow_private: tuple[str, ...] | None = None
    proxy: str | None = None


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a tenant."""

    limits: Limits
    egress: Egress | None
    disabled: bool


class TenantDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The record of what all tenants have whose own says nothing else. `version` None: there is none."""

    limits: Limits
    egress: Egress | None
    disabled: bool
    note: str
    version: int | None
    updated_at: datetime | None


class Tenant(TenantDefaults, frozen=True, kw_only=True):
    """The record of one tenant, and what holds for it."""

    tenant_id: str
    effective: Effective


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """Those that have a record, by name; the defaults for a token of all tenants only."""

    tenants: tuple[Tenant, ...]
    defaults: TenantDefaults | None


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One limit. `allowed` None: unlimited. `used` None: not counted. `at_least`: there may be more."""

    limit: str
    allowed: int | None
    used: int | None
    at_least: bool


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit with what is used of it."""

    tenant_id: str
    disabled: bool
    limits: tuple[LimitUsage, ...]
    requests_last_minute: int
    refused: Mapping[str, int]
