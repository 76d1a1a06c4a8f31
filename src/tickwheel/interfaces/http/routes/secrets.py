"""Signing secrets: list, make, rotate, delete. Values are told once, and never kept by a cache on the way."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tickwheel.domain.limits import BODY_BYTES
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.secret_bodies import RotateSecretRequest, SecretList, SecretRequest
from tickwheel.interfaces.http.secret_views import made_body, secret_body
from tickwheel.interfaces.http.small_bodies import decode
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, Header, Refusal, ok
from tickwheel.services.signing_secrets import SigningSecrets

_CREATE: Final = msgspec.json.Decoder(SecretRequest)
_ROTATE: Final = msgspec.json.Decoder(RotateSecretRequest)
_TOLD_ONCE: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"),)


class SecretRoutes:
    """What is about signing secrets."""

    def __init__(self, deps: Deps) -> None:
        self._found = deps.signing_secrets

    @property
    def _secrets(self) -> SigningSecrets:
        if self._found is None:
            raise Refusal("not_ready", "This node keeps no signing secrets.")
        return self._found

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/secrets"): self.list,
            ("POST", "/v1/secrets"): self.create,
            ("POST", "/v1/secrets/{secret_name}/rotate"): self.rotate,
            ("DELETE", "/v1/secrets/{secret_name}"): self.delete,
        }

    async def list(self, call: Call) -> Answer:
        """All of a tenant."""
        tenant_id = tenant_of(call)
        call.query.done()
        return ok(SecretList([secret_body(view) for view in await self._secrets.list(tenant_id)]))

    async def create(self, call: Call) -> Answer:
        """A new one."""
        tenant_id = tenant_of(call)
        call.query.done()
        request = decode(_CREATE, await call.json_body(BODY_BYTES))
        made = await self._secrets.create(tenant_id, request.name, request.value, act=call.act("secret.create"))
        return ok(made_body(made), status=201, headers=_TOLD_ONCE)

    async def rotate(self, call: Call) -> Answer:
        """A new key for one."""
        tenant_id = tenant_of(call)
        call.query.done()
        request = decode(_ROTATE, await call.optional_json_body(BODY_BYTES) or b"{}")
        made = await self._secrets.rotate(
            tenant_id,
            call.path("secret_name"),
            request.value,
            overlap_ms=request.overlap_seconds * 1000,
            act=call.act("secret.rotate"),
        )
        return ok(made_body(made), headers=_TOLD_ONCE)

    async def delete(self, call: Call) -> Answer:
        """Forget one."""
        tenant_id = tenant_of(call)
        call.query.done()
        await self._secrets.delete(tenant_id, call.path("secret_name"), act=call.act("secret.delete"))
        return Answer(204)
