"""Seals everything that is stored under the key that seals now: headers of jobs, then keys of signing secrets.

It goes over all jobs, those that are over as well: a key may be thrown away only when nothing stored needs it.
What can't be opened is left as it is and named. Nodes may work meanwhile; they need both keys until they start
anew, for they have jobs in memory as they were before.

Going over it again begins anew and finds less to do, so an end by force costs nothing but time.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import decode_spec, encode_spec
from tickwheel.ports.registry import NO_TENANT, Act, AuditEntry
from tickwheel.ports.specs import SpecChange, SpecPiece, SpecStore, StoredSpec
from tickwheel.ports.vault import CannotOpen, CannotSign, Vault
from tickwheel.services.sealing import resealed
from tickwheel.services.signing_secrets import SigningSecrets

PIECE_COUNT: Final = 500
EXAMPLE_COUNT: Final = 20
_LAPS: Final = 3
"""A job that is edited while it is sealed anew is met by the next lap."""

Progress = Callable[[int], None]
"""Told after each piece how many jobs it was."""


class Resealed(msgspec.Struct, frozen=True):
    """What was done. `left` names some of what can't be opened; nothing of it was changed."""

    jobs_seen: int
    jobs_sealed: int
    secrets_sealed: int
    left_count: int
    left: tuple[str, ...]


class NotesEntries(Protocol):
    """The part of `ports.registry.Registry` that is told what was done."""

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None: ...


class Resealing:
    """One walk over a store."""

    def __init__(
        self, specs: SpecStore, entries: NotesEntries, vault: Vault, secrets: SigningSecrets, act: Act
    ) -> None:
        self._specs, self._entries, self._vault, self._secrets, self._act = specs, entries, vault, secrets, act
        self._left: list[str] = []
        self._seen = self._sealed = 0

    async def run(self, progress: Progress = lambda count: None) -> Resealed:
        """Raises `StoreUnavailable` and `OutcomeUnknown`; what was sealed until then stays."""
        try:
            for _ in range(_LAPS):
                if not await self._lap(progress):
                    break
        finally:
            await self._note()
        secrets_sealed = await self._secrets.reseal(self._act, self._left_out)
        return Resealed(
            self._seen, self._sealed, secrets_sealed, len(self._left), tuple(self._left[:EXAMPLE_COUNT])
        )

    async def _lap(self, progress: Progress) -> int:
        """Once over all jobs; gives how many were edited in between."""
        self._left, self._seen, missed = [], 0, 0
        after: bytes | None = b""
        while after is not None:
            piece: SpecPiece = await self._specs.specs_with_headers(after, PIECE_COUNT)
            changes = [change for stored in piece.specs if (change := self._changed(stored)) is not None]
            count = await self._specs.replace_specs(changes)
            missed += len(changes) - count
            self._sealed += count
            self._seen += piece.looked_at
            progress(piece.looked_at)
            after = piece.after
        return missed

    def _changed(self, stored: StoredSpec) -> SpecChange | None:
        spec = decode_spec(stored.spec)
        try:
            target = resealed(self._vault, stored.tenant_id, spec.target)
        except CannotOpen as error:
            self._left.append(f"{job_id_text(stored.job_id)}: {error}")
            return None
        if target == spec.target:
            return None
        return SpecChange(stored.job_id, stored.spec, encode_spec(replace(spec, target=target)).decode())

    def _left_out(self, error: CannotSign) -> None:
        self._left.append(str(error))

    async def _note(self) -> None:
        if self._sealed:
            act, subject = self._act, f"{self._sealed} jobs"
            entry = AuditEntry(0, 0, NO_TENANT, act.actor, act.source, act.action, subject)
            await self._entries.append_entries([entry])
