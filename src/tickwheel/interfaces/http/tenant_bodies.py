"""What goes over the wire about tenants: their records, what holds for them, and what they use."""

from typing import Any, Final

import msgspec

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.quotas import TenantLimits


class LimitsBody(TenantLimits, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """Null: none of its own.

    `max_payload_bytes` is of one job. `requests_burst` (else a second's worth) may come at once. `due_per_second`
    bounds how many runs are due, and how many start, in one second; `concurrency` how many are in flight. `weight`
    is the share of slots beside other tenants, who have 1.
    """


class EgressBody(EgressPolicy, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """What webhooks may call. Null: as the server's settings say."""


class TenantRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The whole record: what is left out is not set any more."""

    limits: LimitsBody | None = None
    egress: EgressBody | None = None
    disabled: bool = False
    note: str = ""


class EffectiveBody(msgspec.Struct):
    """What holds: the record, and the defaults where it says nothing."""

    limits: LimitsBody
    egress: EgressBody | None
    disabled: bool


class TenantBody(msgspec.Struct):
    """The record of a tenant. `version` null: it has none, so the defaults hold."""

    tenant_id: str
    limits: LimitsBody
    egress: EgressBody | None
    disabled: bool
    note: str
    effective: EffectiveBody
    version: int | None
    updated_at: str | None


class DefaultsBody(msgspec.Struct):
    """What all tenants have whose own record says nothing else. `version` null: nothing is set."""

    limits: LimitsBody
    egress: EgressBody | None
    disabled: bool
    note: str
    version: int | None
    updated_at: str | None


class TenantList(msgspec.Struct):
    """Those that have a record, by name; and the defaults, for a token of all tenants."""

    tenants: list[TenantBody]
    defaults: DefaultsBody | None


class LimitUsage(msgspec.Struct):
    """One limit. `allowed` null: unlimited. `used` null: it is not counted. `at_least`: there may be more."""

    limit: str
    allowed: int | None
    used: int | None
    at_least: bool = False


class UsageBody(msgspec.Struct):
    """Jobs and runs in flight are those of the store; the rest is what the node that answers has seen."""

    tenant_id: str
    disabled: bool
    limits: list[LimitUsage]
    requests_last_minute: int
    refused: dict[str, int]


TENANT_TYPES: Final[tuple[Any, ...]] = (TenantRequest, TenantBody, DefaultsBody, TenantList, UsageBody)
"""What the OpenAPI document describes from here."""
