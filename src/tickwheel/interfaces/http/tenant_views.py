"""How tenants are shown, by the API and on the command line alike."""

from msgspec.structs import astuple

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.quotas import LimitName, TenantLimits, TenantSettings
from tickwheel.interfaces.http.tenant_bodies import (
    DefaultsBody,
    EffectiveBody,
    EgressBody,
    LimitsBody,
    LimitUsage,
    TenantBody,
    UsageBody,
)
from tickwheel.interfaces.http.wire import iso
from tickwheel.services.quotas import Usage
from tickwheel.services.tenants import TenantView


def tenant_body(tenant_id: str, view: TenantView | None, effective: TenantSettings) -> TenantBody:
    """A tenant with or without a record."""
    own = TenantSettings() if view is None else view.settings
    return TenantBody(
        tenant_id=tenant_id,
        limits=_limits(own.limits),
        egress=_egress(own.egress),
        disabled=own.disabled,
        note=own.note,
        effective=EffectiveBody(_limits(effective.limits), _egress(effective.egress), effective.disabled),
        version=None if view is None else view.version,
        updated_at=None if view is None else iso(view.updated_ms),
    )


def defaults_body(view: TenantView | None) -> DefaultsBody:
    """The record of defaults."""
    own = TenantSettings() if view is None else view.settings
    return DefaultsBody(
        limits=_limits(own.limits),
        egress=_egress(own.egress),
        disabled=own.disabled,
        note=own.note,
        version=None if view is None else view.version,
        updated_at=None if view is None else iso(view.updated_ms),
    )


def usage_body(tenant_id: str, settings: TenantSettings, usage: Usage) -> UsageBody:
    """Every limit with what is used of it."""
    limits = settings.limits
    return UsageBody(
        tenant_id=tenant_id,
        disabled=settings.disabled,
        limits=[
            LimitUsage(LimitName.MAX_JOBS, limits.max_jobs, usage.jobs, usage.jobs_at_least),
            LimitUsage(LimitName.MAX_PAYLOAD_BYTES, limits.max_payload_bytes, None),
            LimitUsage(
                LimitName.PAYLOAD_BYTES_PER_SECOND, limits.payload_bytes_per_second, usage.payload_bytes_spent
            ),
            LimitUsage(LimitName.REQUESTS_PER_SECOND, limits.requests_per_second, usage.requests_last_second),
            LimitUsage(LimitName.DUE_PER_SECOND, limits.due_per_second, usage.due_this_second),
            LimitUsage("concurrency", limits.concurrency, usage.running),
        ],
        requests_last_minute=usage.requests_last_minute,
        refused=usage.refused,
    )


def _limits(limits: TenantLimits) -> LimitsBody:
    return LimitsBody(*astuple(limits))


def _egress(egress: EgressPolicy | None) -> EgressBody | None:
    return None if egress is None else EgressBody(*astuple(egress))
