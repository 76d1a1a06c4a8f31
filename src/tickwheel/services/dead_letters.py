"""The use cases of the dead-letter queue: runs without an attempt left."""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from tickwheel.domain.errors import Conflict, NotFound
from tickwheel.domain.ids import run_id_text
from tickwheel.ports.clock import Clock
from tickwheel.ports.owner import Owner
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, DeadLetterPage, JobView, Run, Store
from tickwheel.services.aftermath import Aftermath, Seen
from tickwheel.services.changes.occurrence import redrive

RunKey: TypeAlias = tuple[bytes, int]
"""(job_id, scheduled_ms)."""

BATCH: Final = 200
"""How many are redriven at a time; they share commits."""


class Refused(msgspec.Struct, frozen=True):
    """A run that was not redriven."""

    job_id: bytes
    scheduled_ms: int
    code: str
    message: str


class Redriven(msgspec.Struct, frozen=True):
    """What a redrive did."""

    redriven: tuple[RunKey, ...]
    refused: tuple[Refused, ...]


class DeadLetters:
    """List, redrive and delete dead letters. `tenant_id` bounds every look-up.

    With an `act`, each change is in the audit log, by the same commit.
    """

    def __init__(self, store: Store, owner: Owner, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._aftermath = Aftermath(owner)

    async def list(self, tenant_id: str, limit: int, after: str | None = None) -> DeadLetterPage:
        """A page, newest first. Raises `BadCursor`."""
        return await self._store.list_dead(tenant_id, limit, after)

    async def redrive(self, tenant_id: str, runs: Sequence[RunKey], *, act: Act | None = None) -> Redriven:
        """Give these runs all their attempts again, the first at once; a refused one doesn't stop the others."""
        redriven: list[RunKey] = []
        refused: list[Refused] = []
        for start in range(0, len(runs), BATCH):
            batch = runs[start : start + BATCH]
            refusals = await asyncio.gather(*(self._redrive(tenant_id, key, act) for key in batch))
            redriven += [key for key, refusal in zip(batch, refusals, strict=True) if refusal is None]
            refused += [refusal for refusal in refusals if refusal is not None]
        return Redriven(tuple(redriven), tuple(refused))

    async def redrive_all(self, tenant_id: str, *, act: Act | None = None) -> Redriven:
        """The same for every run that is in the queue now; those that fail again meanwhile stay."""
        until_ms = self._clock.now_ms()
        redriven: list[RunKey] = []
        refused: list[Refused] = []
        cursor: str | None = None
        while True:
            page = await self._store.list_dead(tenant_id, BATCH, cursor)
            keys = [(one.run.job_id, one.run.scheduled_ms) for one in page.items if one.failed_ms <= until_ms]
            done = await self.redrive(tenant_id, keys, act=act)
            redriven += done.redriven
            refused += done.refused
            cursor = page.next_cursor
            if cursor is None:
                return Redriven(tuple(redriven), tuple(refused))

    async def delete(self, tenant_id: str, job_id: bytes, scheduled_ms: int, *, act: Act | None = None) -> None:
        """Take one out of the queue; its run stays FAILED. Raises `NotFound`."""
        if not await self._store.drop_dead(tenant_id, job_id, scheduled_ms, act):
            raise NotFound(f"the run {run_id_text(job_id, scheduled_ms)} is not in the dead-letter queue")

    async def _redrive(self, tenant_id: str, key: RunKey, act: Act | None) -> Refused | None:
        seen = Seen()

        def decide(view: JobView, run: Run, now_ms: int) -> Change:
            seen.view = view
            return redrive(view, run, now_ms)

        try:
            changed = await self._store.change_run(tenant_id, *key, decide, act)
            if changed is None:
                raise NotFound(f"there is no run {run_id_text(*key)}")
        except (Conflict, NotFound) as error:
            return Refused(*key, error.code, str(error))
        self._aftermath.of(seen, changed)
        return None
