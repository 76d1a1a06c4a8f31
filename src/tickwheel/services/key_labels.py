"""What the keys were called that entries of the audit log name by their ids.

A revoked key is in no list any more, and the entry of its revocation says what it was called. It is younger than
all that the key did, so it is there for as long as they are.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tickwheel.ports.registry import API_KEY, AuditLogQuery, Registry
from tickwheel.services.api_keys import ApiKeys

REMEMBERED_COUNT: Final = 10_000


class _Shown(msgspec.Struct):
    label: str = ""


_DECODER: Final = msgspec.json.Decoder(_Shown)


class KeyLabels:
    """Looks up labels, and remembers those of revoked keys, which change no more."""

    def __init__(self, registry: Registry, keys: ApiKeys) -> None:
        self._registry, self._keys = registry, keys
        self._revoked: dict[str, tuple[str, str]] = {}  # (tenant or "", label)

    async def of(self, key_ids: Iterable[str], tenant_id: str | None) -> Mapping[str, str]:
        """The labels of these keys, as far as they have one; only of keys of that tenant, None: of all."""
        labels = {}
        for key_id in set(key_ids):
            owner, label = await self._found(key_id)
            if label and tenant_id in (None, owner):
                labels[key_id] = label
        return labels

    async def _found(self, key_id: str) -> tuple[str, str]:
        view = self._keys.known(key_id)
        if view is not None:
            return view.tenant_id, view.key.label
        if key_id not in self._revoked:
            revoked = await self._look_up(key_id)
            if revoked is None:
                return "", ""
            if len(self._revoked) >= REMEMBERED_COUNT:
                self._revoked.clear()
            self._revoked[key_id] = revoked
        return self._revoked[key_id]

    async def _look_up(self, key_id: str) -> tuple[str, str] | None:
        wanted = AuditLogQuery(None, subject=f"{API_KEY}:{key_id}", action="token.revoke", limit=1)
        page = await self._registry.audit_log(wanted)
        for entry in page.items:
            if entry.before is not None:
                return entry.tenant_id, _DECODER.decode(entry.before).label
        return None
