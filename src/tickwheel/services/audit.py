"""Accounts for every job and run of a store: once on demand, and over and over on one node of a cluster.

What a piece finds unaccounted is looked at a second time after a breath, and the smaller number counts. (A piece
is one snapshot, so nothing is missed between two reads; but history is dropped in more than one transaction, and a
check that cries wolf is soon ignored.)

    accepted = waiting + overdue + in flight + past lease + paused + ended, by state + unaccounted
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.ports.audit import EXAMPLE_COUNT, Audited, AuditPiece, Standing
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AuditEnded, EventSink

PIECE_COUNT: Final = 2_000
RECHECK_MS: Final = 1_000
LAP_MS: Final = 120_000
"""A standing check rests this long between two laps."""
BREATH_MS: Final = 250
"""Between two pieces of a standing check, so that it never takes more than a part of a database connection."""

Progress = Callable[[int], None]
"""Told after each piece how many jobs and runs it was."""


class AuditReport(msgspec.Struct, frozen=True):
    """What one walk over everything found."""

    jobs: Mapping[Standing, int]
    runs: Mapping[Standing, int]  # listed ones; that of a one-off counts with its job
    examples: tuple[str, ...]  # ids of some that are unaccounted
    stray_slots: int = 0  # of limits of concurrency: held by no run, so nobody gets them

    @property
    def accepted(self) -> int:
        """All jobs that were looked at."""
        return sum(self.jobs.values())

    @property
    def unaccounted(self) -> int:
        """Jobs and runs that nothing will ever fire or end."""
        return self.count(Standing.UNACCOUNTED)

    def count(self, standing: Standing) -> int:
        """Of jobs and runs together."""
        return self.jobs.get(standing, 0) + self.runs.get(standing, 0)


class Audit:
    """Walks over a store."""

    def __init__(self, *, store: Audited, clock: Clock, breath_ms: int = 0) -> None:
        self._store, self._clock, self._breath_ms = store, clock, breath_ms

    async def run(self, *, open_only: bool = False, progress: Progress = lambda count: None) -> AuditReport:
        """Once over all jobs, then over all runs (`open_only`: over those that have not ended)."""
        jobs, lost_jobs = await self._walk(self._jobs, progress)
        runs, lost_runs = await self._walk(
            lambda after, now_ms: self._store.audit_runs(after, PIECE_COUNT, now_ms, open_only=open_only), progress
        )
        examples = [job_id_text(job_id) for job_id, _ in lost_jobs]
        examples += [run_id_text(job_id, scheduled_ms) for job_id, scheduled_ms in lost_runs]
        return AuditReport(jobs, runs, tuple(examples[:EXAMPLE_COUNT]), await self._stray_slots())

    async def _stray_slots(self) -> int:
        found = await self._store.audit_slots()
        if not found:
            return 0
        await self._clock.sleep_ms(RECHECK_MS)
        return min(found, await self._store.audit_slots())

    async def _jobs(self, after: str, now_ms: int) -> AuditPiece:
        return await self._store.audit_jobs(after, PIECE_COUNT, now_ms)

    async def _walk(
        self, look: Callable[[str, int], Awaitable[AuditPiece]], progress: Progress
    ) -> tuple[Mapping[Standing, int], list[tuple[bytes, int]]]:
        total: Counter[Standing] = Counter()
        lost: list[tuple[bytes, int]] = []
        after: str | None = ""
        while after is not None:
            piece = await look(after, self._clock.now_ms())
            if piece.standings.get(Standing.UNACCOUNTED):
                await self._clock.sleep_ms(RECHECK_MS)
                again = await look(after, self._clock.now_ms())
                if again.standings.get(Standing.UNACCOUNTED, 0) <= piece.standings[Standing.UNACCOUNTED]:
                    piece = again
            total.update(piece.standings)
            lost += piece.unaccounted
            progress(sum(piece.standings.values()))
            after = piece.after
            await self._clock.sleep_ms(self._breath_ms)
        return total, lost


class StandingAudit:
    """The loop on the node that leads; `last` is its last whole lap."""

    def __init__(
        self, *, store: Audited, clock: Clock, events: EventSink, is_leader: Callable[[], bool] = lambda: True
    ) -> None:
        self._audit = Audit(store=store, clock=clock, breath_ms=BREATH_MS)
        self._clock, self._events, self._is_leader = clock, events, is_leader
        self.last: AuditReport | None = None

    async def run(self) -> None:
        """Check, rest, and again, for ever."""
        while True:
            await self._clock.sleep_ms(LAP_MS)
            if self._is_leader():
                await self.lap()
            else:
                self.last = None

    async def lap(self) -> None:
        """One walk over all jobs and all runs that have not ended."""
        self.last = report = await self._audit.run(open_only=True)
        self._events.emit(
            AuditEnded(
                accepted=report.accepted,
                unaccounted=report.unaccounted,
                overdue=report.count(Standing.OVERDUE),
                examples=report.examples,
            )
        )
