"""Where API keys are kept: on a running server, or in a store that is opened for the command."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from tickwheel.config import Settings
from tickwheel.domain.access import Role, Scope
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.text_rules import new_tenant_fault, text_fault
from tickwheel.interfaces.cli.api import Api
from tickwheel.interfaces.cli.keeping import ASK_IT, act_of, explained
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import Token

_TOKEN: Final = msgspec.json.Decoder(Token)


class Keeper(Protocol):
    """What the commands need. Fields are those of the API."""

    async def list(self) -> Sequence[Token]: ...

    async def create(self, fields: Mapping[str, Any]) -> Token: ...

    async def rotate(self, token_id: str, grace_seconds: int) -> Token: ...

    async def revoke(self, token_id: str) -> None: ...


class ServerKeeper:
    """Asks the server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def list(self) -> Sequence[Token]:
        return self._api.ask(calls.list_tokens(self._api.tenant)).tokens

    async def create(self, fields: Mapping[str, Any]) -> Token:
        return self._api.ask(calls.create_token(fields))

    async def rotate(self, token_id: str, grace_seconds: int) -> Token:
        return self._api.ask(calls.rotate_token(token_id, grace_seconds))

    async def revoke(self, token_id: str) -> None:
        self._api.ask(calls.revoke_token(token_id))


class StoreKeeper:
    """Opens the store. The audit log says that it was the command line, and whose."""

    def __init__(self, settings: Settings, tenant: str | None) -> None:
        self._settings, self._tenant = settings, tenant

    async def list(self) -> Sequence[Token]:
        from tickwheel.interfaces.http.token_views import token_body
        from tickwheel.wiring import open_api_keys

        with explained(ASK_IT):
            async with open_api_keys(self._settings) as keys:
                return [_as_token(token_body(view)) for view in await keys.list(self._tenant)]

    async def create(self, fields: Mapping[str, Any]) -> Token:
        from tickwheel.interfaces.http.token_views import issued_body
        from tickwheel.wiring import open_api_keys, system_clock

        tenant = fields["tenant_id"] or DEFAULT_TENANT
        for name, fault in (("tenant_id", new_tenant_fault(tenant)), ("label", text_fault(fields["label"]))):
            if fault is not None:
                raise InvalidRequest([FieldProblem(name, fault)])
        seconds = fields["expires_in_seconds"]
        with explained(ASK_IT):
            async with open_api_keys(self._settings) as keys:
                issued = await keys.create(
                    tenant_id="" if fields["all_tenants"] else tenant,
                    role=Role(fields["role"]),
                    scopes=[Scope(name) for name in fields["scopes"] or ()],
                    label=fields["label"],
                    expires_ms=None if seconds is None else system_clock().now_ms() + seconds * 1000,
                    act=act_of("token.create"),
                )
                return _as_token(issued_body(issued))

    async def rotate(self, token_id: str, grace_seconds: int) -> Token:
        from tickwheel.interfaces.http.token_views import issued_body
        from tickwheel.wiring import open_api_keys

        with explained(ASK_IT):
            async with open_api_keys(self._settings) as keys:
                act = act_of("token.rotate")
                return _as_token(issued_body(await keys.rotate(self._tenant, token_id, grace_seconds * 1000, act)))

    async def revoke(self, token_id: str) -> None:
        from tickwheel.wiring import open_api_keys

        with explained(ASK_IT):
            async with open_api_keys(self._settings) as keys:
                await keys.revoke(self._tenant, token_id, act_of("token.revoke"))


def _as_token(body: msgspec.Struct) -> Token:
    return _TOKEN.decode(msgspec.json.encode(body))
