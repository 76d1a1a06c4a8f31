"""Explains runs, and instants of jobs that have none: gathers what is recorded, and lets the domain conclude.

Everything is read for the tenant in question. What a run waits for is matched by what it is: its host, its limits,
its lane, its shard.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from tickwheel.domain.concurrency import counted
from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.domain.errors import FieldProblem, InvalidRequest, NotFound
from tickwheel.domain.explanation import (
    Circumstances,
    Explanation,
    Held,
    Nearby,
    explain_absence,
    explain_run,
)
from tickwheel.domain.explanation.facts import first_start_ms
from tickwheel.domain.explanation.wall import Wall, is_wall, read_wall
from tickwheel.domain.ids import job_id_text, run_id_text, shard_of
from tickwheel.domain.job import Job, JobState, Target, TargetType
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.domain.run import TERMINAL
from tickwheel.ports.clock import Clock
from tickwheel.ports.explaining import ExplainingStore, Wanted
from tickwheel.ports.queue import handler_route
from tickwheel.ports.registry import AuditLogQuery, Registry
from tickwheel.ports.store import JobStore, JobView, Ledger, Run
from tickwheel.services.delay_watch import ELSEWHERE, EXECUTORS
from tickwheel.services.gates.host_gate import host_of, shown
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK

NEIGHBOURS: Final = 20
"""So many runs before the one in question are looked at."""
CHANGES: Final = 100
"""So many of the latest changes of the job are looked through for pauses."""
_ALWAYS: Final[tuple[Wanted, ...]] = tuple(
    (kind, None) for kind in (DelayKind.START, DelayKind.TAKEOVER, DelayKind.STORE)
)


class ExplainedStore(JobStore, Ledger, Registry, ExplainingStore, Protocol):
    """What explanations are read from."""


class Explained(NamedTuple):
    """An explanation, of which instant, and the job. `others_ms`: further instants to look at."""

    job: Job
    scheduled_ms: int
    explanation: Explanation
    others_ms: tuple[int, ...] = ()


class Explanations:
    """The use case. `waits_for` is the word of this node's gates for a target's runs that wait right now."""

    def __init__(
        self,
        store: ExplainedStore,
        clock: Clock,
        waits_for: Callable[[Target, str], str | None] = lambda target, tenant_id: None,
    ) -> None:
        self._store, self._clock, self._waits_for = store, clock, waits_for

    async def of_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Explained:
        """That run, or why there is none. Raises `NotFound` where the job is not known either."""
        return await self._explain(tenant_id, job_id, scheduled_ms, None, run_id_text(job_id, scheduled_ms))

    async def of_instant(self, tenant_id: str, job_id: bytes, at: str | None) -> Explained:
        """What became of the job at that time; without one, its latest run, else its next.

        A time without an offset is one of the clock in the job's zone. Raises `NotFound`, and `InvalidRequest` for
        what is no time.
        """
        view = await self._view(tenant_id, job_id, job_id_text(job_id))
        if at is None:
            return await self._explain(tenant_id, job_id, _latest_ms(view), None, job_id_text(job_id))
        try:
            wall = _instants(view.job, at)
        except InstantError as error:
            message = f"{error}; or give a time of the job's zone, such as 2026-10-22T14:30:00"
            raise InvalidRequest([FieldProblem("at", message, "instant")]) from error
        scheduled_ms = wall.instants_ms[0]
        for instant_ms in wall.instants_ms[1:]:
            if await self._store.get_run(tenant_id, job_id, scheduled_ms) is None:
                scheduled_ms = instant_ms
        explained = await self._explain(tenant_id, job_id, scheduled_ms, wall, job_id_text(job_id))
        others = tuple(one for one in wall.instants_ms if one != scheduled_ms)
        if wall.gap is not None and await self._store.get_run(tenant_id, job_id, scheduled_ms) is not None:
            others = (scheduled_ms,)  # it was made up for
        return explained._replace(others_ms=others)

    async def _explain(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, wall: Wall | None, asked_for: str
    ) -> Explained:
        run = await self._store.get_run(tenant_id, job_id, scheduled_ms)
        view = await self._view(tenant_id, job_id, asked_for)
        known = await self._circumstances(view, scheduled_ms, run)
        gap = None if wall is None else wall.gap
        if run is None or gap is not None:
            return Explained(view.job, scheduled_ms, explain_absence(scheduled_ms, known, gap))
        return Explained(view.job, scheduled_ms, explain_run(run, known))

    async def _view(self, tenant_id: str, job_id: bytes, asked_for: str) -> JobView:
        view = await self._store.get_job(tenant_id, job_id)
        if view is None:
            raise NotFound(f"there is no {'run' if asked_for.startswith('run_') else 'job'} {asked_for}")
        return view

    async def _circumstances(self, view: JobView, scheduled_ms: int, run: Run | None) -> Circumstances:
        job, now_ms = view.job, self._clock.now_ms()
        until_ms = now_ms
        waits = run is None or (not run.fence and run.state not in TERMINAL)
        if run is not None:
            until_ms = first_start_ms(run) or run.finished_ms or now_ms
        return Circumstances(
            job=job,
            now_ms=now_ms,
            shard=shard_of(job.job_id),
            delays=await self._delays(job, scheduled_ms, until_ms),
            pauses=await self._pauses(job),
            earlier=await self._earlier(job, scheduled_ms),
            waits_for=self._waits_for(job.spec.target, job.tenant_id)
            if waits and scheduled_ms <= now_ms
            else None,
            live_ms=None if view.live is None else view.live.scheduled_ms,
        )

    async def _delays(self, job: Job, from_ms: int, until_ms: int) -> Sequence[Delay]:
        return await self._store.find_delays(_wanted(job), from_ms, until_ms) if until_ms > from_ms else []

    async def _earlier(self, job: Job, scheduled_ms: int) -> Sequence[Nearby]:
        if not job.recurring:
            return []
        runs = await self._store.runs_before(job.tenant_id, job.job_id, scheduled_ms, NEIGHBOURS)
        return [
            Nearby(run.scheduled_ms, run.state, run.started_ms or run.claimed_ms, run.finished_ms) for run in runs
        ]

    async def _pauses(self, job: Job) -> Sequence[Held]:
        """By the audit log, which is kept for a while; one that lasts is known from the job."""
        subject = job_id_text(job.job_id)
        page = await self._store.audit_log(AuditLogQuery(job.tenant_id, limit=CHANGES, subject=subject))
        pauses, began_ms = list[Held](), None
        for entry in reversed(page.items):
            if entry.action == "job.pause":
                began_ms = entry.at_ms
            elif entry.action == "job.resume" and began_ms is not None:
                pauses.append(Held(began_ms, entry.at_ms))
                began_ms = None
        if job.state is JobState.PAUSED:
            pauses.append(Held(began_ms or job.updated_ms, None))
        return pauses


def _wanted(job: Job) -> Sequence[Wanted]:
    """What may have held back runs of this job."""
    target, handler = job.spec.target, job.spec.target.type is TargetType.HANDLER
    host = handler_route(target.name) if handler else shown(host_of(target.endpoint))
    executor = EXECUTORS[KIND_HANDLER if handler else KIND_WEBHOOK]
    limits = counted(job.spec.concurrency, job.tenant_id, job.name, 1)  # that of its tenant as well, if it has one
    return [
        *_ALWAYS,
        (DelayKind.TARGET, host),
        (DelayKind.WORKER, target.name),
        (DelayKind.TENANT, job.tenant_id),
        (DelayKind.SLOTS, f"{executor}/{job.lane.name}"),
        (DelayKind.SLOTS, f"{ELSEWHERE}/{job.lane.name}"),
        *((DelayKind.LIMIT, limit.name) for limit in limits),
    ]


def _instants(job: Job, at: str) -> Wall:
    if not is_wall(at):
        return Wall((parse_instant(at),), None)
    wall = read_wall(at, job.spec.timezone)
    # In a gap there is no such instant: the change of the clock stands for it.
    return wall if wall.gap is None else Wall((wall.gap.start * 1_000,), wall.gap)


def _latest_ms(view: JobView) -> int:
    if view.last_run is not None:
        return view.last_run.scheduled_ms
    if view.job.scheduled_ms is not None:
        return view.job.scheduled_ms
    return view.job.created_ms if view.live is None else view.live.scheduled_ms
