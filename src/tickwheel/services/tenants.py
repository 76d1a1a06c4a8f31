"""The records of tenants: put, delete and list them, and what holds for each tenant now.

Every node knows all records, as they were at most a second ago (`record_cache`). Who enforces something of them
looks it up with `of`, or is told of changes (`when_changed`) and keeps what it needs in a shape of its own.

A record that this version can't read counts as it did before. If that isn't known either, the tenant is disabled:
limits that can't be read must not be no limits.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import msgspec

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import NotFound, StoreUnavailable
from tickwheel.domain.quotas import NOTHING_SET, TenantSettings
from tickwheel.domain.requests.tenancy import check_new_tenant
from tickwheel.ports.clock import Clock
from tickwheel.ports.registry import NO_TENANT, TENANT, Act, Record, Registry
from tickwheel.services.record_cache import REFRESH_MS, RecordCache

DEFAULTS: Final = NO_TENANT
"""Whose record holds what all tenants have that say nothing else."""
_SHUT: Final = TenantSettings(disabled=True)
_DECODER: Final = msgspec.json.Decoder(TenantSettings)


class TenantView(msgspec.Struct, frozen=True):
    """A record as it is stored. The empty tenant: the defaults."""

    tenant_id: str
    settings: TenantSettings
    version: int
    updated_ms: int


class Tenants:
    """`refresh` before the first look; `run` keeps what is known fresh."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry, self._clock = registry, clock
        self._cache: RecordCache[TenantView] = RecordCache(registry, TENANT, _view, clock)
        self._seen = -1
        self._defaults = NOTHING_SET
        self._effective: Mapping[str, TenantSettings] = {}
        self._listeners: list[Callable[[], None]] = []

    def of(self, tenant_id: str) -> TenantSettings:
        """What holds for this tenant."""
        return self._effective.get(tenant_id, self._defaults)

    def egress_of(self, tenant_id: str) -> EgressPolicy | None:
        """Its egress policy; None: that of the server's settings."""
        return self.of(tenant_id).egress

    @property
    def defaults(self) -> TenantSettings:
        """What holds for tenants without a record."""
        return self._defaults

    @property
    def known(self) -> Mapping[str, TenantSettings]:
        """What holds for those that have a record."""
        return MappingProxyType(self._effective)

    def when_changed(self, listener: Callable[[], None]) -> None:
        """Call this now, and whenever something may be different."""
        self._listeners.append(listener)
        listener()

    async def put(
        self, tenant_id: str, settings: TenantSettings, act: Act, expected_version: int | None = None
    ) -> TenantView:
        """Make or replace the record; only at `expected_version`, if that is given.

        Raises `InvalidRequest`, `VersionMismatch` and `NotFound` (there is no record of that version).
        """
        if tenant_id != DEFAULTS and self._cache.get(tenant_id, tenant_id) is None:
            check_new_tenant(tenant_id)
        body = msgspec.json.encode(settings).decode()
        record = Record(TENANT, tenant_id, tenant_id, body)
        stored = await self._registry.put_record(record, act, expected_version=expected_version, shown=body)
        await self._read_again()
        return _view(stored)

    async def delete(self, tenant_id: str, act: Act) -> None:
        """Leave the tenant what the defaults give. Raises `NotFound`."""
        if not await self._registry.delete_record(TENANT, tenant_id, tenant_id, act):
            raise _no_record(tenant_id)
        await self._read_again()

    async def get(self, tenant_id: str) -> TenantView:
        """The record as it is stored now. Raises `NotFound`."""
        for view in await self.list():
            if view.tenant_id == tenant_id:
                return view
        raise _no_record(tenant_id)

    async def list(self) -> Sequence[TenantView]:
        """All records, by tenant; the defaults come first."""
        await self.refresh()
        return [view for _, view in sorted(self._cache.all().items())]

    async def refresh(self) -> None:
        """Read what has changed, and tell who wants to know."""
        await self._cache.refresh()
        if self._seen != self._cache.generation:
            self._seen = self._cache.generation
            self._lay_over()
            for listener in self._listeners:
                listener()

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await self.refresh()
            await self._clock.sleep_ms(REFRESH_MS)

    async def _read_again(self) -> None:
        self._cache.now_stale()
        with suppress(StoreUnavailable):  # what was written is written; it is read again a second later
            await self.refresh()

    def _lay_over(self) -> None:
        records = {tenant_id: view.settings for (tenant_id, _), view in self._cache.all().items()}
        for tenant_id, _ in self._cache.unreadable:
            records.setdefault(tenant_id, _SHUT)
        self._defaults = records.pop(DEFAULTS, NOTHING_SET)
        self._effective = {tenant_id: own.over(self._defaults) for tenant_id, own in records.items()}


def _view(record: Record) -> TenantView:
    return TenantView(record.tenant_id, _DECODER.decode(record.body), record.version, record.updated_ms)


def _no_record(tenant_id: str) -> NotFound:
    whose = f"the tenant {tenant_id!r}" if tenant_id else "the defaults of tenants"
    return NotFound(f"there is no record of {whose}")
