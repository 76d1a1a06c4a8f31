"""The rules that come with workers apart from owners, each dropped in turn."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tickwheel.adapters.memory import leases
from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import Rows
from tickwheel.domain.run import RunState
from tickwheel.ports.queue import tenant_route
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote import taking
from tickwheel.services.remote.backlog import Backlog
from tickwheel.services.remote.outbox import Outbox
from tickwheel.services.remote.routes import Routes

from . import scenes_workers as workers
from .mutations import LOST, TWICE, Mutation, swap


def _running_is_a_source(original: Any) -> Any:
    def begin(tables: Tables, hints: Rows, worker: str, now_ms: int, lease_ms: int) -> Rows:
        for job_id, scheduled_ms, fence, _ in hints.tolist():
            row = tables.ledger.get((job_id, scheduled_ms))
            if row is not None and row.run.fence == fence and row.run.state is RunState.RUNNING:
                row.run = replace(row.run, state=RunState.CLAIMED)
        answer: Rows = original(tables, hints, worker, now_ms, lease_ms)
        return answer

    return begin


def _never_looks(original: Any) -> Any:
    async def check(self: Outbox) -> None:
        return

    return check


def _nobody_is_found(original: Any) -> Any:
    async def reap_expired(self: Reaper, now_ms: int, shards: Sequence[int] | None) -> None:
        return

    return reap_expired


def _stays_where_it_was(original: Any) -> Any:
    def pick(self: Routes, route: str, tenant_id: str) -> str:
        own = tenant_route(tenant_id, route)
        return own if self.known(own) else route

    return pick


WORKER_MUTATIONS = (
    Mutation(
        "F1 queue",
        "RUNNING may be begun again under its token",
        workers.hint_that_comes_twice,
        TWICE,
        swap(leases, "begin", _running_is_a_source),
    ),
    Mutation(
        "F2 queue",
        "what nobody begins is not published again",
        workers.hints_that_get_lost,
        LOST,
        swap(Outbox, "check", _never_looks),
    ),
    Mutation(
        "F2 heir",
        "a new owner does not adopt what is queued",
        workers.owner_dies_with_a_queued_run,
        LOST,
        swap(Outbox, "adopt", lambda original: lambda self, run, due_ms: None),
    ),
    Mutation(
        "F5 worker",
        "leases of workers that died are not looked at",
        workers.worker_dies_with_a_run,
        LOST,
        swap(Reaper, "_reap_expired", _nobody_is_found),
    ),
    Mutation(
        "F8",
        "owners claim without asking for room",
        workers.more_due_than_workers_can_do,
        ("I12 slots",),
        swap(Backlog, "room", lambda original: lambda self, topic: 1_000),
    ),
    Mutation(
        "T1",
        "a worker of a tenant takes whatever hint it finds",
        workers.hint_among_those_of_another_tenant,
        ("T1 tenant",),
        swap(taking, "_is_stray", lambda original: lambda begun, routes, tenant_id: original(begun, routes, None)),
    ),
    Mutation(
        "T2",
        "runs of a tenant are not sent to its own workers",
        workers.own_worker_and_nobody_else,
        ("T2 reached",),
        swap(Routes, "pick", lambda original: lambda self, route, tenant_id: route),
    ),
    Mutation(
        "T2 gone",
        "what is for own workers that are gone stays theirs",
        workers.own_worker_dies_before_it_looks,
        ("T2 reached",),
        swap(Routes, "pick", _stays_where_it_was),
    ),
)
