"""Where the records of tenants are kept: on a running server, or in a store that is opened for the command.

A name of None stands for the defaults of all tenants.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from tickwheel.config import Settings
from tickwheel.interfaces.cli.api import Api
from tickwheel.interfaces.cli.keeping import ASK_IT, act_of, explained
from tickwheel.interfaces.client import tenant_calls as calls
from tickwheel.interfaces.client.tenant_models import Tenant, TenantDefaults, TenantList, TenantUsage

Record: TypeAlias = Tenant | TenantDefaults
_TENANT: Final = msgspec.json.Decoder(Tenant)
_DEFAULTS: Final = msgspec.json.Decoder(TenantDefaults)
_LIST: Final = msgspec.json.Decoder(TenantList)
_USAGE: Final = msgspec.json.Decoder(TenantUsage)


class TenantKeeper(Protocol):
    """What the commands need."""

    async def list(self) -> TenantList: ...

    async def get(self, tenant_id: str | None) -> Record: ...

    async def put(self, tenant_id: str | None, record: Mapping[str, Any], if_version: int | None) -> Record: ...

    async def delete(self, tenant_id: str | None) -> None: ...

    async def usage(self, tenant_id: str) -> TenantUsage: ...


class ServerTenants:
    """Asks the server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def list(self) -> TenantList:
        return self._api.ask(calls.list_tenants())

    async def get(self, tenant_id: str | None) -> Record:
        return self._api.ask(calls.get_tenant(tenant_id))

    async def put(self, tenant_id: str | None, record: Mapping[str, Any], if_version: int | None) -> Record:
        return self._api.ask(calls.put_tenant(tenant_id, record, if_version))

    async def delete(self, tenant_id: str | None) -> None:
        self._api.ask(calls.delete_tenant(tenant_id))

    async def usage(self, tenant_id: str) -> TenantUsage:
        return self._api.ask(calls.tenant_usage(tenant_id))


class StoredTenants:
    """Opens the store. The audit log says that it was the command line, and whose."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def list(self) -> TenantList:
        from tickwheel.interfaces.http.tenant_bodies import TenantList as Body
        from tickwheel.interfaces.http.tenant_views import defaults_body, tenant_body
        from tickwheel.wiring import open_tenancy

        with explained(ASK_IT):
            async with open_tenancy(self._settings) as (tenants, _):
                views = {view.tenant_id: view for view in await tenants.list()}
                defaults = defaults_body(views.pop("", None))
                bodies = [tenant_body(name, view, tenants.of(name)) for name, view in views.items()]
                return _LIST.decode(msgspec.json.encode(Body(bodies, defaults)))

    async def get(self, tenant_id: str | None) -> Record:
        from tickwheel.wiring import open_tenancy

        with explained(ASK_IT):
            async with open_tenancy(self._settings) as (tenants, _):
                views = {view.tenant_id: view for view in await tenants.list()}
                return _record(tenants, tenant_id, views.get(tenant_id or ""))

    async def put(self, tenant_id: str | None, record: Mapping[str, Any], if_version: int | None) -> Record:
        from tickwheel.domain.quotas import read_settings
        from tickwheel.wiring import open_tenancy

        settings = read_settings(record)
        with explained(ASK_IT):
            async with open_tenancy(self._settings) as (tenants, _):
                view = await tenants.put(tenant_id or "", settings, act_of("tenant.put"), if_version)
                return _record(tenants, tenant_id, view)

    async def delete(self, tenant_id: str | None) -> None:
        from tickwheel.wiring import open_tenancy

        with explained(ASK_IT):
            async with open_tenancy(self._settings) as (tenants, _):
                await tenants.delete(tenant_id or "", act_of("tenant.delete"))

    async def usage(self, tenant_id: str) -> TenantUsage:
        from tickwheel.interfaces.http.tenant_views import usage_body
        from tickwheel.wiring import open_tenancy

        with explained(ASK_IT):
            async with open_tenancy(self._settings) as (tenants, quotas):
                body = usage_body(tenant_id, tenants.of(tenant_id), await quotas.usage(tenant_id))
        for one in body.limits:
            if one.limit.endswith("_per_second"):
                one.used = None  # servers count these, each for itself
        return _USAGE.decode(msgspec.json.encode(body))


def _record(tenants: Any, tenant_id: str | None, view: Any) -> Record:
    from tickwheel.interfaces.http.tenant_views import defaults_body, tenant_body

    if tenant_id is None:
        return _DEFAULTS.decode(msgspec.json.encode(defaults_body(view)))
    return _TENANT.decode(msgspec.json.encode(tenant_body(tenant_id, view, tenants.of(tenant_id))))
