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
from tickwheel.ports.store import Change, DeadLetter, DeadLetterPage, JobView, Run, Store
from tickwheel.services.aftermath import Aftermath, Seen
from tickwheel.services.changes.occurrence import redrive

RunKey: TypeAlias = tuple[bytes, int]
"""(job_id, scheduled_ms)."""

BATCH: Final = 200
"""How many are redriven at a time; they share commits."""


PAGES_LOOKED_AT: Final = 20
"""How far a page with a filter looks on for its first letter."""
LETTERS_LOOKED_AT: Final = 20_000
JOBS_NAMED: Final = 20
"""Jobs of a cause that are named."""


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


class Which(msgspec.Struct, frozen=True):
    """Dead letters of this cause, of this job, or both; nothing given: all."""

    cause: str | None = None
    job_id: bytes | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether it is one of these."""
        return self.cause in (None, letter.cause) and self.job_id in (None, letter.run.job_id)


ALL: Final = Which()


class CauseGroup(msgspec.Struct):
    """The dead letters of one cause: how many, of which jobs (by their ids), between when."""

    cause: str
    count: int
    jobs: dict[bytes, str]
    oldest_ms: int
    newest_ms: int
    example: RunKey


class Causes(msgspec.Struct, frozen=True):
    """By cause, the most frequent first. `is_whole` false: only the newest were looked at."""

    groups: list[CauseGroup]
    is_whole: bool


class DeadLetters:
    """List, redrive and delete dead letters. `tenant_id` bounds every look-up.

    With an `act`, each change is in the audit log, by the same commit.
    """

    def __init__(self, store: Store, owner: Owner, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._aftermath = Aftermath(owner)

    async def list(
        self, tenant_id: str, limit: int, after: str | None = None, which: Which = ALL
    ) -> DeadLetterPage:
        """A page, newest first; it may hold fewer than `limit` and still have a next one. Raises `BadCursor`."""
        page = await self._store.list_dead(tenant_id, limit, after)
        if which == ALL:
            return page
        for _ in range(PAGES_LOOKED_AT):
            wanted = tuple(letter for letter in page.items if which.takes(letter))
            if wanted or page.next_cursor is None:
                break
            page = await self._store.list_dead(tenant_id, limit, page.next_cursor)
        return DeadLetterPage(wanted, page.next_cursor)

    async def causes(self, tenant_id: str) -> Causes:
        """What the queue is full of; looks at the newest `LETTERS_LOOKED_AT`."""
        groups: dict[str, CauseGroup] = {}
        cursor, seen = None, 0
        while seen < LETTERS_LOOKED_AT:
            page = await self._store.list_dead(tenant_id, BATCH, cursor)
            for letter in page.items:
                _count(groups, letter)
            seen, cursor = seen + len(page.items), page.next_cursor
            if cursor is None:
                break
        return Causes(sorted(groups.values(), key=lambda group: -group.count), is_whole=cursor is None)

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

    async def redrive_all(self, tenant_id: str, which: Which = ALL, *, act: Act | None = None) -> Redriven:
        """The same for each of these runs that is in the queue now; those that fail again meanwhile stay."""
        until_ms = self._clock.now_ms()
        redriven: list[RunKey] = []
        refused: list[Refused] = []
        cursor: str | None = None
        while True:
            page = await self._store.list_dead(tenant_id, BATCH, cursor)
            chosen = [one for one in page.items if one.failed_ms <= until_ms and which.takes(one)]
            keys = [(one.run.job_id, one.run.scheduled_ms) for one in chosen]
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


def _count(groups: dict[str, CauseGroup], letter: DeadLetter) -> None:
    run, at_ms = letter.run, letter.failed_ms
    group = groups.get(letter.cause)
    if group is None:
        group = CauseGroup(letter.cause, 0, {}, at_ms, at_ms, (run.job_id, run.scheduled_ms))
        groups[letter.cause] = group
    group.count += 1
    group.oldest_ms, group.newest_ms = min(group.oldest_ms, at_ms), max(group.newest_ms, at_ms)
    if len(group.jobs) < JOBS_NAMED:
        group.jobs[run.job_id] = letter.job_name
