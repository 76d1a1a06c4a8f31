"""The rules that come with workers apart from owners, each dropped in turn."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tickwheel.adapters.memory import leases
from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import Rows
from tickwheel.domain.run import RunState
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote.backlog import Backlog
from tickwheel.services.remote.outbox import Outbox

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
)
