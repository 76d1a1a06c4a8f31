"""API keys: make, rotate, revoke and list them, and find whose a key is.

Keys are found in memory: a key that is revoked at one node is unknown to the others within about a second, to the
node that revoked it at once. When a key was last used is kept in memory too and written once a minute.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tickwheel.domain.access import Principal, Role, Scope, narrowed
from tickwheel.domain.api_keys import (
    ID_BYTES,
    SECRET_BYTES,
    ApiKey,
    key_text,
    make_id,
    make_secret,
    parse_key,
    secret_hash,
)
from tickwheel.domain.errors import FieldProblem, InvalidRequest, NotFound, StoreUnavailable
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.registry import API_KEY, NO_TENANT, Act, Record, Registry
from tickwheel.services.record_cache import RecordCache

FLUSH_USES_MS: Final = 60_000
GRACE_SECONDS_DEFAULT: Final = 86_400
GRACE_SECONDS_MAX: Final = 90 * 86_400
_DECODER: Final = msgspec.json.Decoder(ApiKey)


class KeyView(msgspec.Struct, frozen=True):
    """A key without its secret. The empty tenant: it is for all of them."""

    key_id: str
    tenant_id: str
    key: ApiKey
    used_ms: int


class Issued(msgspec.Struct, frozen=True):
    """A key whose `text` is told once, now."""

    view: KeyView
    text: str


class Found(NamedTuple):
    """Whose key it is, and until when it holds if nobody changes it; None: for ever."""

    principal: Principal
    key_id: str
    until_ms: int | None


class ApiKeys:
    """`run` keeps what is known fresh; `refresh` before the first look."""

    def __init__(self, registry: Registry, clock: Clock, randomness: Randomness) -> None:
        self._registry, self._clock, self._randomness = registry, clock, randomness
        self._cache: RecordCache[KeyView] = RecordCache(registry, API_KEY, _view, clock)
        self._by_id: dict[str, KeyView] = {}
        self._indexed = -1
        self._used_ms: dict[str, int] = {}

    @property
    def exist(self) -> bool:
        """Whether there is any key, as far as it is known."""
        return bool(self._cache.all())

    @property
    def generation(self) -> int:
        """Rises whenever keys were read again."""
        return self._cache.generation

    def find(self, text: str) -> Found | None:
        """Whose key `text` is, if it is one and holds now."""
        parsed = parse_key(text)
        view = None if parsed is None else self.known(parsed[0])
        if parsed is None or view is None or not view.key.fits(parsed[1], self._clock.now_ms()):
            return None
        self.used(view.key_id)
        principal = view.key.principal(view.key_id, view.tenant_id)
        return Found(principal, view.key_id, view.key.until_ms(parsed[1]))

    def used(self, key_id: str) -> None:
        """Note that it was used now."""
        self._used_ms[key_id] = self._clock.now_ms()

    def known(self, key_id: str) -> KeyView | None:
        """The key of that id, as it was read last."""
        if self._indexed != self._cache.generation:
            self._by_id = {view.key_id: view for view in self._cache.all().values()}
            self._indexed = self._cache.generation
        return self._by_id.get(key_id)

    async def create(
        self,
        *,
        tenant_id: str,
        role: Role,
        act: Act,
        scopes: Sequence[Scope] = (),
        label: str = "",
        expires_ms: int | None = None,
    ) -> Issued:
        """Make a key; the empty tenant stands for all of them. Raises `InvalidRequest`."""
        now_ms = self._clock.now_ms()
        problems = []
        try:
            narrowed(role, scopes)
        except ValueError as error:
            problems.append(FieldProblem("scopes", str(error)))
        if expires_ms is not None and expires_ms <= now_ms:
            problems.append(FieldProblem("expires_at", "is not in the future"))
        if problems:
            raise InvalidRequest(problems)
        secret = make_secret(self._randomness.random_bytes(SECRET_BYTES))
        key = ApiKey(secret_hash(secret), role, tuple(scopes), label, now_ms, expires_ms)
        key_id = make_id(self._randomness.random_bytes(ID_BYTES))
        stored = await self._put(Record(API_KEY, tenant_id, key_id, ""), key, act, expected_version=0)
        return Issued(_view(stored), key_text(key_id, secret))

    async def rotate(self, tenant_id: str | None, key_id: str, grace_ms: int, act: Act) -> Issued:
        """Give the key a new secret; the old one holds for `grace_ms` more. Raises `NotFound`."""
        now_ms = self._clock.now_ms()
        record = await self._record(tenant_id, key_id)
        key = _DECODER.decode(record.body)
        secret = make_secret(self._randomness.random_bytes(SECRET_BYTES))
        renewed = replace(key, hash=secret_hash(secret), old_hash=key.hash, old_until_ms=now_ms + grace_ms)
        stored = await self._put(record, renewed, act, expected_version=record.version)
        return Issued(_view(stored), key_text(key_id, secret))

    async def revoke(self, tenant_id: str | None, key_id: str, act: Act) -> None:
        """Make the key worthless, at once. Raises `NotFound`."""
        record = await self._record(tenant_id, key_id)
        if not await self._registry.delete_record(API_KEY, record.tenant_id, key_id, act):
            raise _no_such_key()
        await self._read_again()

    async def get(self, tenant_id: str | None, key_id: str) -> KeyView:
        """One key. Raises `NotFound`."""
        return self._with_use(_view(await self._record(tenant_id, key_id)))

    async def list(self, tenant_id: str | None) -> Sequence[KeyView]:
        """The keys of a tenant; None: all there are, oldest first."""
        records = await self._registry.records(API_KEY)
        views = [self._with_use(_view(one)) for one in records if tenant_id in (None, one.tenant_id)]
        return sorted(views, key=lambda view: (view.key.created_ms, view.key_id))

    async def refresh(self) -> None:
        """Read what has changed."""
        await self._cache.refresh()

    async def run(self) -> None:
        """Keep it fresh, for ever."""
        await self._cache.run()

    async def run_uses(self) -> None:
        """Write down when keys were used, once a minute, for ever."""
        while True:
            await self._clock.sleep_ms(FLUSH_USES_MS)
            await self.flush_uses()

    async def flush_uses(self) -> None:
        """Write down when keys were used."""
        used, self._used_ms = self._used_ms, {}
        if used:
            await self._registry.touch_records(API_KEY, used)

    async def _record(self, tenant_id: str | None, key_id: str) -> Record:
        for record in await self._registry.records(API_KEY):
            if record.name == key_id and tenant_id in (None, record.tenant_id):
                return record
        raise _no_such_key()

    async def _put(self, record: Record, key: ApiKey, act: Act, *, expected_version: int) -> Record:
        body = msgspec.json.encode(key).decode()
        shown = msgspec.json.encode(_shown(record.tenant_id, key)).decode()
        stored = await self._registry.put_record(
            replace(record, body=body), act, expected_version=expected_version, shown=shown
        )
        with suppress(StoreUnavailable):  # the loop reads it in a second, and the secret can't be told later
            await self._read_again()
        return stored

    async def _read_again(self) -> None:
        self._cache.now_stale()
        await self._cache.refresh()

    def _with_use(self, view: KeyView) -> KeyView:
        return replace(view, used_ms=max(view.used_ms, self._used_ms.get(view.key_id, 0)))


def _view(record: Record) -> KeyView:
    return KeyView(record.name, record.tenant_id, _DECODER.decode(record.body), record.used_ms)


def _shown(tenant_id: str, key: ApiKey) -> dict[str, object]:
    """What the audit log says of a key."""
    return {
        "tenant_id": None if tenant_id == NO_TENANT else tenant_id,
        "label": key.label,
        "role": key.role.value,
        "scopes": [scope.value for scope in key.scopes],
        "expires_ms": key.expires_ms,
        "old_until_ms": key.old_until_ms or None,
    }


def _no_such_key() -> NotFound:
    """What was taken for an id may be a whole key, so it isn't repeated."""
    return NotFound("there is no API key of that id")
