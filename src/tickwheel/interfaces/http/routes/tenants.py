"""Tenants: their records, the defaults of all of them, and what they use."""

from collections.abc import Mapping

from tickwheel.domain.errors import FieldProblem, InvalidRequest, NotFound
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.domain.quotas import TenantSettings, read_settings
from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.preconditions import expected_version
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.small_bodies import decode_tree
from tickwheel.interfaces.http.tenant_bodies import TenantBody, TenantList
from tickwheel.interfaces.http.tenant_views import defaults_body, tenant_body, usage_body
from tickwheel.interfaces.http.wire import Answer, Header, Refusal, ok
from tickwheel.services.quotas import Quotas
from tickwheel.services.tenants import DEFAULTS, Tenants, TenantView


class TenantRoutes:
    """What is about tenants."""

    def __init__(self, deps: Deps) -> None:
        self._found, self._counts = deps.tenants, deps.quotas

    @property
    def _tenants(self) -> Tenants:
        if self._found is None:
            raise Refusal("not_ready", "This node keeps no tenants.")
        return self._found

    @property
    def _quotas(self) -> Quotas:
        if self._counts is None:
            raise Refusal("not_ready", "This node counts nothing of tenants.")
        return self._counts

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/tenants"): self.list,
            ("GET", "/v1/tenants/{tenant_id}"): self.get,
            ("PUT", "/v1/tenants/{tenant_id}"): self.put,
            ("DELETE", "/v1/tenants/{tenant_id}"): self.delete,
            ("GET", "/v1/tenants/{tenant_id}/usage"): self.usage,
            ("GET", "/v1/tenant-defaults"): self.get_defaults,
            ("PUT", "/v1/tenant-defaults"): self.put_defaults,
            ("DELETE", "/v1/tenant-defaults"): self.delete_defaults,
        }

    async def list(self, call: Call) -> Answer:
        """All that have a record; a token of one tenant sees that one only, with a record or without."""
        call.query.done()
        views, bound = await self._views(), call.principal.tenant_id
        if bound is not None:
            return ok(TenantList([self._body(bound, views.get(bound))], None))
        defaults = defaults_body(views.pop(DEFAULTS, None))
        return ok(TenantList([self._body(tenant_id, view) for tenant_id, view in views.items()], defaults))

    async def get(self, call: Call) -> Answer:
        """One, with a record or without: tenants need none."""
        call.query.done()
        tenant_id = _tenant_of(call)
        view = (await self._views()).get(tenant_id)
        return ok(self._body(tenant_id, view), headers=_etag(view))

    async def put(self, call: Call) -> Answer:
        """Replace the record."""
        call.query.done()
        tenant_id, version = _tenant_of(call), expected_version(call)
        view = await self._tenants.put(tenant_id, await _settings(call), call.act("tenant.put"), version)
        return ok(self._body(tenant_id, view), headers=_etag(view))

    async def delete(self, call: Call) -> Answer:
        """Leave it what the defaults give."""
        call.query.done()
        await self._tenants.delete(_tenant_of(call), call.act("tenant.delete"))
        return Answer(204)

    async def usage(self, call: Call) -> Answer:
        """Every limit with what is used of it."""
        call.query.done()
        tenant_id = _tenant_of(call)
        usage = await self._quotas.usage(tenant_id)
        return ok(usage_body(tenant_id, self._tenants.of(tenant_id), usage))

    async def get_defaults(self, call: Call) -> Answer:
        """What holds where a tenant's record says nothing."""
        call.query.done()
        view = (await self._views()).get(DEFAULTS)
        return ok(defaults_body(view), headers=_etag(view))

    async def put_defaults(self, call: Call) -> Answer:
        """Replace them."""
        call.query.done()
        version = expected_version(call)
        view = await self._tenants.put(DEFAULTS, await _settings(call), call.act("tenant.put"), version)
        return ok(defaults_body(view), headers=_etag(view))

    async def delete_defaults(self, call: Call) -> Answer:
        """Nothing holds for all any more."""
        call.query.done()
        await self._tenants.delete(DEFAULTS, call.act("tenant.delete"))
        return Answer(204)

    async def _views(self) -> dict[str, TenantView]:
        return {view.tenant_id: view for view in await self._tenants.list()}

    def _body(self, tenant_id: str, view: TenantView | None) -> TenantBody:
        return tenant_body(tenant_id, view, self._tenants.of(tenant_id))


async def _settings(call: Call) -> TenantSettings:
    return read_settings(decode_tree(await call.json_body(BODY_BYTES)))


def _tenant_of(call: Call) -> str:
    tenant_id = call.path("tenant_id")
    fault = tenant_fault(tenant_id)
    if fault is not None:
        raise InvalidRequest([FieldProblem("tenant_id", fault)])
    if call.principal.tenant_id not in (None, tenant_id):
        raise NotFound("This token's tenant has no such thing.")
    return tenant_id


def _etag(view: TenantView | None) -> tuple[Header, ...]:
    return () if view is None else ((b"etag", b'"%d"' % view.version),)
