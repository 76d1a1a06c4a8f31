"""What is answered about the installation as it is now."""

from typing import Any, Final

import msgspec

from tickwheel.domain.forecast import MINUTE_MS, PEAK_LEAST, PEAK_TIMES
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import Lane
from tickwheel.domain.vitals import SECOND_COUNT, LaneVitals
from tickwheel.domain.waits import wait_text
from tickwheel.interfaces.http.wire import iso_text
from tickwheel.ports.shards import ShardState
from tickwheel.services.live.forecasting import DueJobs, Forecast
from tickwheel.services.live.overview import Overview
from tickwheel.services.live.pulse import NodeView


class LaneBody(msgspec.Struct):
    """One lane: what began in the last minute and how late, and what waits now."""

    lane: str
    started: int
    p50_ms: int
    p99_ms: int
    max_ms: int
    backlog: int
    oldest_due_seconds: float


class WaitBody(msgspec.Struct):
    """What due runs wait for, or waited for in the last minute (`goes_on` false), and for how long, as a phrase.

    `kind`: target, limit, tenant, slots, worker (a handler that nobody has), store, takeover or start (no server
    ran); `subject` is the host, the tenant, the handler.
    """

    kind: str
    subject: str
    says: str
    seconds: float
    goes_on: bool


class OverviewBody(msgspec.Struct):
    """`standing`: idle, on_time, late, or store_unavailable; `says` is a sentence about it.

    Due and waiting are `backlog` (for a slot), `held` (for their target, a limit or their tenant) and `elsewhere`
    (for workers); `oldest_due_seconds` is that of all of them, in a lane of those that wait for a slot.

    Counts of attempts and the lateness are those of the last minute, over all nodes; a lateness is the slowest
    node's. `starts_by_second` and `failures_by_second` are its seconds, the oldest first; nodes hear of each other
    within two.
    """

    now: str
    standing: str
    says: str
    started: int
    succeeded: int
    failed: int
    dead: int
    backlog: int
    in_flight: int
    armed: int
    held: int
    elsewhere: int
    oldest_due_seconds: float
    waits: list[WaitBody]
    lanes: list[LaneBody]
    jobs: int | None
    waiting: int | None
    dead_letters: int | None
    nodes: int
    silent_nodes: list[str]
    starts_by_second: list[int]
    failures_by_second: list[int]


class NodeBody(msgspec.Struct):
    """One node. `standing`: alive, new (not judged yet) or silent. `unfit` says why it must own nothing."""

    name: str
    incarnation: str
    standing: str
    silent_seconds: float
    version: str
    roles: list[str]
    unfit: str
    draining: bool
    clock_difference_ms: int
    is_this: bool
    is_leader: bool
    shards: list[int]
    started: int
    failed: int
    backlog: int
    in_flight: int
    armed: int
    p99_ms: int


class NodeList(msgspec.Struct):
    """The nodes, the answering one first. `free_shards` belong to none of them."""

    nodes: list[NodeBody]
    shard_count: int
    free_shards: list[int]


class PatternBody(msgspec.Struct):
    """A calendar that fires in a crowded minute, and how many jobs have it."""

    cron_expression: str
    timezone: str
    priority: str
    jobs: int


class PeakBody(msgspec.Struct):
    """A crowded minute. `usual` is due in a minute near it; `quiet`: minutes of that hour with the least due."""

    at: str
    due: int
    usual: int
    causes: list[PatternBody]
    quiet: list[str]


class ForecastBody(msgspec.Struct):
    """Runs due in each minute from `start` on. `crowded`: the numbers of the minutes that are peaks.

    A peak has `peak_least` runs and `peak_times` as many as a usual minute of the hour around it, or more; `peaks`
    has the most crowded ones. `is_whole` false: there are more runs than could be counted.
    """

    start: str
    due: list[int]
    due_by_lane: dict[str, list[int]]
    crowded: list[int]
    peaks: list[PeakBody]
    peak_least: int
    peak_times: int
    is_whole: bool


class DueJobBody(msgspec.Struct):
    """A job with runs due in a minute; `at` is the first."""

    at: str
    runs: int
    job_id: str
    job_name: str
    tenant_id: str
    priority: str
    recurring: bool


class DueBody(msgspec.Struct):
    """The jobs that are due in a minute. `is_whole` false: there are more."""

    at: str
    jobs: list[DueJobBody]
    is_whole: bool


LIVE_TYPES: Final[tuple[Any, ...]] = (OverviewBody, NodeList, ForecastBody, DueBody)
"""What the OpenAPI document describes from here."""


def forecast_body(forecast: Forecast) -> ForecastBody:
    """As it is answered."""
    counts = forecast.counts

    def at(minute: int) -> str:
        return iso_text(forecast.start_ms + minute * MINUTE_MS)

    peaks = [
        PeakBody(
            at=at(peak.minute),
            due=peak.due,
            usual=peak.usual,
            causes=[
                PatternBody(of.cron, of.timezone, Lane(of.lane).name, job_count) for of, job_count in peak.causes
            ],
            quiet=[at(minute) for minute in peak.quiet],
        )
        for peak in forecast.peaks
    ]
    return ForecastBody(
        start=at(0),
        due=counts.sum(axis=0).tolist(),
        due_by_lane={lane.name: counts[lane].tolist() for lane in Lane},
        crowded=forecast.crowded.tolist(),
        peaks=peaks,
        peak_least=PEAK_LEAST,
        peak_times=PEAK_TIMES,
        is_whole=forecast.is_whole,
    )


def due_body(at_ms: int, due: DueJobs) -> DueBody:
    """The jobs of a minute."""
    jobs = [
        DueJobBody(
            at=iso_text(one.due_ms),
            runs=one.run_count,
            job_id=job_id_text(one.job_id),
            job_name=one.work.name,
            tenant_id=one.work.tenant_id,
            priority=Lane(one.lane).name,
            recurring=one.recurring,
        )
        for one in due.jobs
    ]
    return DueBody(at=iso_text(at_ms), jobs=jobs, is_whole=due.is_whole)


def overview_body(seen: Overview) -> OverviewBody:
    """As it is answered, and sent to those that look on."""
    vitals, counts = seen.vitals, seen.counts
    return OverviewBody(
        now=iso_text(seen.now_ms),
        standing="store_unavailable" if seen.standing is None else seen.standing.value,
        says=seen.says,
        started=vitals.started,
        succeeded=vitals.succeeded,
        failed=vitals.failed,
        dead=vitals.dead,
        backlog=vitals.backlog,
        in_flight=vitals.in_flight,
        armed=vitals.armed,
        held=vitals.held,
        elsewhere=vitals.elsewhere,
        oldest_due_seconds=_age_seconds(vitals.oldest_due_ms, seen.now_ms),
        waits=[
            WaitBody(one.kind, one.subject, wait_text(one), one.length_ms / 1000, one.goes_on(seen.now_ms))
            for one in vitals.waits
        ],
        lanes=[_lane(Lane(place), lane, seen.now_ms) for place, lane in enumerate(vitals.lanes)],
        jobs=None if counts is None else counts.jobs,
        waiting=None if counts is None else counts.waiting,
        dead_letters=None if counts is None else counts.dead_letters,
        nodes=sum(node.standing == "alive" for node in seen.nodes),
        silent_nodes=seen.silent_nodes,
        starts_by_second=_minute(vitals.starts),
        failures_by_second=_minute(vitals.failures),
    )


def node_list(nodes: list[NodeView], shards: list[ShardState]) -> NodeList:
    """Who holds which shards, by what the store says."""
    held: dict[str | None, list[int]] = {}
    for state in shards:
        held.setdefault(state.owner, []).append(state.shard)
    bodies = [_node(node, held.pop(node.incarnation, [])) for node in nodes]
    return NodeList(bodies, len(shards), sorted(shard for rest in held.values() for shard in rest))


def _node(node: NodeView, shards: list[int]) -> NodeBody:
    vitals = node.vitals
    return NodeBody(
        name=node.name,
        incarnation=node.incarnation,
        standing=node.standing,
        silent_seconds=node.silent_ms / 1000,
        version=node.version,
        roles=list(node.roles),
        unfit=node.unfit,
        draining=node.draining,
        clock_difference_ms=node.clock_difference_ms,
        is_this=node.is_this,
        is_leader=node.is_leader,
        shards=shards,
        started=vitals.started,
        failed=vitals.failed,
        backlog=vitals.backlog,
        in_flight=vitals.in_flight,
        armed=vitals.armed,
        p99_ms=max((lane.p99_ms for lane in vitals.lanes), default=0),
    )


def _lane(lane: Lane, vitals: LaneVitals, now_ms: int) -> LaneBody:
    return LaneBody(
        lane=lane.name,
        started=vitals.started,
        p50_ms=vitals.p50_ms,
        p99_ms=vitals.p99_ms,
        max_ms=vitals.max_ms,
        backlog=vitals.backlog,
        oldest_due_seconds=_age_seconds(vitals.oldest_due_ms, now_ms),
    )


def _minute(counts: tuple[int, ...]) -> list[int]:
    return [*[0] * (SECOND_COUNT - len(counts)), *counts]


def _age_seconds(due_ms: int, now_ms: int) -> float:
    return max(0, now_ms - due_ms) / 1000 if due_ms else 0.0
