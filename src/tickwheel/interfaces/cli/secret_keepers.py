"""Where signing secrets are kept: on a running server, or in a store that is opened for the command."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from tickwheel.config import Settings
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.cli.api import Api
from tickwheel.interfaces.cli.keeping import ASK_IT, act_of, explained
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.models import Secret

_SECRET: Final = msgspec.json.Decoder(Secret)


class SecretKeeper(Protocol):
    """What the commands need; `value` None: a random one."""

    async def list(self) -> Sequence[Secret]: ...

    async def create(self, name: str, value: str | None) -> Secret: ...

    async def rotate(self, name: str, value: str | None, overlap_seconds: int) -> Secret: ...

    async def delete(self, name: str) -> None: ...


class ServerSecrets:
    """Asks the server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def list(self) -> Sequence[Secret]:
        return self._api.ask(calls.list_secrets(self._api.tenant)).secrets

    async def create(self, name: str, value: str | None) -> Secret:
        return self._api.ask(calls.create_secret(name, value, self._api.tenant))

    async def rotate(self, name: str, value: str | None, overlap_seconds: int) -> Secret:
        return self._api.ask(calls.rotate_secret(name, value, overlap_seconds, self._api.tenant))

    async def delete(self, name: str) -> None:
        self._api.ask(calls.delete_secret(name, self._api.tenant))


class StoredSecrets:
    """Opens the store. `warn` is told what is unwise about it."""

    def __init__(self, settings: Settings, tenant: str | None, warn: Callable[[str], None]) -> None:
        fault = None if tenant is None else tenant_fault(tenant)
        if fault is not None:
            raise InvalidRequest([FieldProblem("tenant_id", fault)])
        self._settings, self._tenant, self._warn = settings, tenant or DEFAULT_TENANT, warn

    async def list(self) -> Sequence[Secret]:
        from tickwheel.interfaces.http.secret_views import secret_body
        from tickwheel.wiring import open_signing_secrets

        with explained(ASK_IT):
            async with open_signing_secrets(self._settings, self._warn) as secrets:
                return [_as_secret(secret_body(view)) for view in await secrets.list(self._tenant)]

    async def create(self, name: str, value: str | None) -> Secret:
        from tickwheel.interfaces.http.secret_views import made_body
        from tickwheel.wiring import open_signing_secrets

        with explained(ASK_IT):
            async with open_signing_secrets(self._settings, self._warn) as secrets:
                made = await secrets.create(self._tenant, name, value, act=act_of("secret.create"))
                return _as_secret(made_body(made))

    async def rotate(self, name: str, value: str | None, overlap_seconds: int) -> Secret:
        from tickwheel.interfaces.http.secret_views import made_body
        from tickwheel.wiring import open_signing_secrets

        with explained(ASK_IT):
            async with open_signing_secrets(self._settings, self._warn) as secrets:
                made = await secrets.rotate(
                    self._tenant, name, value, overlap_ms=overlap_seconds * 1000, act=act_of("secret.rotate")
                )
                return _as_secret(made_body(made))

    async def delete(self, name: str) -> None:
        from tickwheel.wiring import open_signing_secrets

        with explained(ASK_IT):
            async with open_signing_secrets(self._settings, self._warn) as secrets:
                await secrets.delete(self._tenant, name, act=act_of("secret.delete"))


def _as_secret(body: msgspec.Struct) -> Secret:
    return _SECRET.decode(msgspec.json.encode(body))
