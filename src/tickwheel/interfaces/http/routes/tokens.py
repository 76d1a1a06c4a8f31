"""API keys: list, make, rotate, revoke; and whose token a request was sent with."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.domain.access import ROLE_SCOPES
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.domain.requests.text_rules import new_tenant_fault, text_fault
from tickwheel.interfaces.http.access_bodies import (
    PrincipalBody,
    RotateRequest,
    TokenList,
    TokenRequest,
)
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.token_views import issued_body, token_body
from tickwheel.interfaces.http.wire import Answer, Refusal, ok
from tickwheel.ports.registry import NO_TENANT
from tickwheel.services.api_keys import ApiKeys, KeyView

_CREATE: Final = msgspec.json.Decoder(TokenRequest)
_ROTATE: Final = msgspec.json.Decoder(RotateRequest)


class TokenRoutes:
    """What is about tokens."""

    def __init__(self, deps: Deps) -> None:
        self._found, self._clock = deps.api_keys, deps.clock

    @property
    def _keys(self) -> ApiKeys:
        if self._found is None:
            raise Refusal("not_ready", "This node keeps no tokens.")
        return self._found

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/whoami"): self.whoami,
            ("GET", "/v1/tokens"): self.list,
            ("POST", "/v1/tokens"): self.create,
            ("GET", "/v1/tokens/{token_id}"): self.get,
            ("POST", "/v1/tokens/{token_id}/rotate"): self.rotate,
            ("DELETE", "/v1/tokens/{token_id}"): self.revoke,
        }

    async def whoami(self, call: Call) -> Answer:
        """The principal of this request."""
        call.query.done()
        who = call.principal
        return ok(PrincipalBody(who.name, who.tenant_id, sorted(scope.value for scope in who.scopes)))

    async def list(self, call: Call) -> Answer:
        """All that the token may see."""
        tenant_id = tenant_filter(call)
        call.query.done()
        return ok(TokenList([token_body(view) for view in await self._keys.list(tenant_id)]))

    async def create(self, call: Call) -> Answer:
        """A new key, shown once."""
        call.query.done()
        request = decode(_CREATE, await call.json_body(BODY_BYTES))
        tenant_id = _tenant_of(call, request)
        wanted = frozenset(request.scopes) or ROLE_SCOPES[request.role]
        beyond = sorted(scope.value for scope in wanted - call.principal.scopes)
        if beyond:
            raise Refusal("forbidden", f"This token can't give what it doesn't have: {', '.join(beyond)}.")
        seconds = request.expires_in_seconds
        issued = await self._keys.create(
            tenant_id=tenant_id,
            role=request.role,
            scopes=request.scopes,
            label=request.label,
            expires_ms=None if seconds is None else self._clock.now_ms() + seconds * 1000,
            act=call.act("token.create"),
        )
        return ok(issued_body(issued), status=201)

    async def get(self, call: Call) -> Answer:
        """One key."""
        call.query.done()
        return ok(token_body(await self._keys.get(call.principal.tenant_id, call.path("token_id"))))

    async def rotate(self, call: Call) -> Answer:
        """A new secret, shown once."""
        call.query.done()
        request = decode(_ROTATE, await call.optional_json_body(BODY_BYTES) or b"{}")
        tenant_id, key_id = call.principal.tenant_id, call.path("token_id")
        view = await self._keys.get(tenant_id, key_id)
        _refuse_beyond(call, view)
        act = call.act("token.rotate")
        return ok(issued_body(await self._keys.rotate(tenant_id, key_id, request.grace_seconds * 1000, act)))

    async def revoke(self, call: Call) -> Answer:
        """Make it worthless."""
        call.query.done()
        await self._keys.revoke(call.principal.tenant_id, call.path("token_id"), call.act("token.revoke"))
        return Answer(204)


def _tenant_of(call: Call, request: TokenRequest) -> str:
    problems = []
    if request.all_tenants and request.tenant_id is not None:
        problems.append(FieldProblem("tenant_id", "goes not with all_tenants; leave one out", "conflict"))
    fault = None if request.tenant_id is None else new_tenant_fault(request.tenant_id)
    if fault is not None:
        problems.append(FieldProblem("tenant_id", fault))
    fault = text_fault(request.label)
    if fault is not None:
        problems.append(FieldProblem("label", fault))
    bound = call.principal.tenant_id
    if bound is not None and request.tenant_id not in (None, bound):
        message = f"is not the tenant of this token, {bound!r}; leave it out"
        problems.append(FieldProblem("tenant_id", message, "conflict"))
    if problems:
        raise InvalidRequest(problems)
    if request.all_tenants:
        if bound is not None:
            raise Refusal("forbidden", "A token of one tenant can't make one for all of them.")
        return NO_TENANT
    return request.tenant_id or bound or DEFAULT_TENANT


def _refuse_beyond(call: Call, view: KeyView) -> None:
    """Whoever gets a new secret could use it: so they need all that it may."""
    beyond = view.key.principal(view.key_id, view.tenant_id).scopes - call.principal.scopes
    if beyond:
        raise Refusal("forbidden", "This token can't give a new secret to one that may do more than itself.")
