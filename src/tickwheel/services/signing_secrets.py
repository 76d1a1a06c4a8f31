"""Signing secrets of tenants: made, rotated and deleted at any node, known to all of them a second later.

A target names one of its tenant's; one that names none is signed with the tenant's secret called `default`, or, if
there is none, with the keys of the installation (`--webhook-secret`).

After a rotation the new key and the one before sign together for a while. Of older ones only the newest is kept:
who rotates twice in that time gives the first key up at once.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tickwheel.domain.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    VersionMismatch,
)
from tickwheel.domain.requests.target_rules import secret_name_fault
from tickwheel.domain.requests.tenancy import check_new_tenant
from tickwheel.domain.sealed import signing_context
from tickwheel.domain.signing_key import (
    DEFAULT_NAME,
    KEY_BYTES,
    LIVE_COUNT,
    SigningKey,
    SigningSecret,
    parse_secret,
    secret_text,
)
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.registry import SIGNING_SECRET, Act, Record, Registry
from tickwheel.ports.vault import CannotOpen, CannotSign, Vault
from tickwheel.services.record_cache import RecordCache

OVERLAP_SECONDS: Final = 86_400
OVERLAP_SECONDS_MAX: Final = 30 * 86_400
_ID_BYTES: Final = 6
_TRIES: Final = 5
_DECODER: Final = msgspec.json.Decoder(SigningSecret)


class SecretView(NamedTuple):
    """A secret without its keys' values; `keys` are those that sign now, newest first."""

    tenant_id: str
    name: str
    keys: Sequence[SigningKey]


class Made(NamedTuple):
    """A new key: the only time that its value is told."""

    view: SecretView
    value: str


class SigningSecrets:
    """`run` keeps what is known fresh; `refresh` before the first look."""

    def __init__(
        self,
        registry: Registry,
        vault: Vault,
        clock: Clock,
        randomness: Randomness,
        installation_keys: Sequence[bytes] = (),
    ) -> None:
        self._registry, self._vault, self._clock, self._randomness = registry, vault, clock, randomness
        self._installation_keys = tuple(installation_keys)
        self._cache: RecordCache[SigningSecret] = RecordCache(registry, SIGNING_SECRET, _decoded, clock)

    async def refresh(self) -> None:
        """Read what has changed."""
        await self._cache.refresh()

    async def run(self) -> None:
        """Keep it fresh, for ever."""
        await self._cache.run()

    def knows(self, tenant_id: str, name: str) -> bool:
        """Whether the tenant has a secret of that name, as far as is known here."""
        return self._cache.get(tenant_id, name) is not None

    def keys_for(self, tenant_id: str, name: str) -> Sequence[bytes]:
        """What a request is signed with, newest first; an empty name stands for the default.

        Raises `CannotSign` if the secret is unknown here, or sealed under a key that is.
        """
        return [parse_secret(text) for text in self.values_for(tenant_id, name)] or self._installation_keys

    def values_for(self, tenant_id: str, name: str) -> Sequence[str]:
        """The tenant's as texts (`whsec_…`), for a worker elsewhere; keys of the installation don't travel.

        Raises `CannotSign`.
        """
        secret = self._cache.get(tenant_id, name or DEFAULT_NAME)
        if secret is None:
            if name:
                raise CannotSign(f"there is no signing secret {name!r} of the tenant")
            return []
        name = name or DEFAULT_NAME
        try:
            return [
                self._vault.open(key.sealed, signing_context(tenant_id, name, key.id))
                for key in secret.live(self._clock.now_ms())
            ]
        except CannotOpen as error:
            raise CannotSign(f"the signing secret {name!r} can't be opened: {error}") from None

    async def list(self, tenant_id: str) -> Sequence[SecretView]:
        """All of a tenant, by name."""
        await self._cache.refresh()
        now_ms = self._clock.now_ms()
        return [
            SecretView(tenant_id, name, secret.live(now_ms))
            for (owner, name), secret in sorted(self._cache.all().items())
            if owner == tenant_id
        ]

    async def create(self, tenant_id: str, name: str, value: str | None = None, *, act: Act) -> Made:
        """Make one, with a value of yours or a random one. Raises `InvalidRequest` and `Conflict`."""
        check_new_tenant(tenant_id)
        fault = secret_name_fault(name)
        if fault is not None:
            raise InvalidRequest([FieldProblem("name", fault)])
        value = self._value(value)
        secret = SigningSecret((self._key(tenant_id, name, value),))
        try:
            await self._put(tenant_id, name, secret, act, expected_version=0)
        except Conflict:
            raise Conflict(
                f"there is a signing secret {name!r} already; rotate it, or choose another name"
            ) from None
        return Made(SecretView(tenant_id, name, secret.keys), value)

    async def rotate(
        self,
        tenant_id: str,
        name: str,
        value: str | None = None,
        *,
        overlap_ms: int = OVERLAP_SECONDS * 1000,
        act: Act,
    ) -> Made:
        """Give it a new key; the one before signs along for `overlap_ms`. Raises `NotFound`, `InvalidRequest`."""
        value = self._value(value)

        def with_new_key(secret: SigningSecret) -> SigningSecret:
            now_ms = self._clock.now_ms()
            before = secret.live(now_ms)[: LIVE_COUNT - 1] if overlap_ms else ()
            ending = tuple(replace(key, until_ms=now_ms + overlap_ms) for key in before)
            return SigningSecret((self._key(tenant_id, name, value), *ending))

        secret = await self._change(tenant_id, name, with_new_key, act)
        return Made(SecretView(tenant_id, name, secret.keys), value)

    async def delete(self, tenant_id: str, name: str, *, act: Act) -> None:
        """Forget it; runs of jobs that name it fail until there is one again. Raises `NotFound`."""
        if not await self._registry.delete_record(SIGNING_SECRET, tenant_id, name, act):
            raise _no_such_secret(name)
        await self._read_again()

    async def reseal(self, act: Act, on_left: Callable[[CannotSign], None] | None = None) -> int:
        """Seal all keys under the key that seals now; how many secrets were changed.

        A secret that can't be opened is told to `on_left` and stays as it is. Raises `CannotSign` without it.
        """
        await self._cache.refresh()
        changed = 0
        for (tenant_id, name), known in list(self._cache.all().items()):

            def anew(secret: SigningSecret, tenant_id: str = tenant_id, name: str = name) -> SigningSecret:
                live = secret.live(self._clock.now_ms())
                return SigningSecret(tuple(self._resealed(tenant_id, name, key) for key in live))

            try:
                if anew(known) != known:
                    await self._change(tenant_id, name, anew, act)
                    changed += 1
            except CannotSign as error:
                if on_left is None:
                    raise
                on_left(error)
        return changed

    def _resealed(self, tenant_id: str, name: str, key: SigningKey) -> SigningKey:
        context = signing_context(tenant_id, name, key.id)
        try:
            return replace(key, sealed=self._vault.seal(self._vault.open(key.sealed, context), context))
        except CannotOpen as error:
            raise CannotSign(f"the signing secret {name!r} of {tenant_id!r} can't be opened: {error}") from None

    def _value(self, value: str | None) -> str:
        if value is None:
            return secret_text(self._randomness.random_bytes(KEY_BYTES))
        try:
            return secret_text(parse_secret(value))
        except ValueError as error:
            raise InvalidRequest([FieldProblem("value", f"is none that can be used: {error}")]) from None

    def _key(self, tenant_id: str, name: str, value: str) -> SigningKey:
        key_id = self._randomness.random_bytes(_ID_BYTES).hex()
        sealed = self._vault.seal(value, signing_context(tenant_id, name, key_id))
        return SigningKey(key_id, sealed, self._clock.now_ms())

    async def _change(
        self, tenant_id: str, name: str, change: Callable[[SigningSecret], SigningSecret], act: Act
    ) -> SigningSecret:
        """Replace exactly what was read, again when somebody was faster."""
        for attempt in range(_TRIES):
            record = await self._record(tenant_id, name)
            secret = change(_decoded(record))
            try:
                await self._put(tenant_id, name, secret, act, expected_version=record.version)
            except VersionMismatch:
                if attempt + 1 == _TRIES:
                    raise
                continue
            return secret
        raise AssertionError("unreachable")

    async def _record(self, tenant_id: str, name: str) -> Record:
        for record in await self._registry.records(SIGNING_SECRET):
            if (record.tenant_id, record.name) == (tenant_id, name):
                return record
        raise _no_such_secret(name)

    async def _put(
        self, tenant_id: str, name: str, secret: SigningSecret, act: Act, *, expected_version: int
    ) -> None:
        body = msgspec.json.encode(secret).decode()
        shown = msgspec.json.encode([_shown(key) for key in secret.keys]).decode()
        record = Record(SIGNING_SECRET, tenant_id, name, body)
        await self._registry.put_record(record, act, expected_version=expected_version, shown=shown)
        await self._read_again()

    async def _read_again(self) -> None:
        """What was written is written: if it can't be read now, the loop reads it in a second."""
        self._cache.now_stale()
        with suppress(StoreUnavailable):
            await self._cache.refresh()


def _decoded(record: Record) -> SigningSecret:
    return _DECODER.decode(record.body)


def _shown(key: SigningKey) -> dict[str, object]:
    """What the audit log says of a key."""
    return {"id": key.id, "created_ms": key.created_ms, "until_ms": key.until_ms}


def _no_such_secret(name: str) -> NotFound:
    return NotFound(f"there is no signing secret {name!r}")
