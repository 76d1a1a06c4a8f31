"""Much at once, and much that can't run: every step takes a bounded bite, and nothing stands in others' way."""

from collections import defaultdict
from typing import Any

import pytest

from tickwheel.adapters.sqlite import SqliteStore
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .conftest import MakeNode
from .node import SECOND_MS, Node

NOW = "2026-10-01T10:00:00Z"
DUE = "2026-10-01T10:00:30Z"
MANY = 2_000
LARGEST_BITE = MANY // 2


def lot(name: str, count: int, due: str = DUE, **fields: Any) -> list[dict[str, Any]]:
    target = {"type": "HANDLER", "name": name}
    body = {"schedule_type": "ONE_OFF", "execute_at": due, "target": target, "job_name": name, **fields}
    return [body] * count


async def create(world: Node, *lots: list[dict[str, Any]]) -> None:
    for bodies in lots:
        reply = await world.client.post("/v1/jobs/batch", bodies)
        assert reply.json["created_count"] == len(bodies)


def note_batches(world: Node, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The number of rows of each call of the hot verbs."""
    sizes: dict[str, list[int]] = defaultdict(list)

    def noted(name: str) -> Any:
        verb = getattr(SqliteStore, name)

        async def call(store: SqliteStore, *args: Any, **options: Any) -> Any:
            answer = await verb(store, *args, **options)
            sizes[name].append(len(answer) if name == "expired" else len(args[0]))
            return answer

        return call

    for name in ("claim", "load_work", "expired"):
        monkeypatch.setattr(SqliteStore, name, noted(name))
    return sizes


@pytest.mark.pitfall(52)
@pytest.mark.parametrize("how", ["on time", "after a stop", "after a kill with all under way"])
async def test_however_much_is_due_at_one_instant_it_is_taken_in_bounded_bites(
    node: MakeNode, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(at=NOW, slots=3_000) as world:
        sizes = note_batches(world, monkeypatch)
        await create(world, lot("it", MANY))
        if how == "after a kill with all under way":
            world.work_ms = lambda work: 3_600 * SECOND_MS
            await world.until("2026-10-01T10:00:32Z")
            assert len(world.calls) == MANY
            world.work_ms = lambda work: 0
        if how != "on time":
            await world.down_until("2026-10-01T10:02:00Z", killed=how != "after a stop")
        await world.until("2026-10-01T10:02:10Z")
        left = (await world.client.get("/v1/jobs?status=SCHEDULED&limit=1")).json["jobs"]
        assert left == []
        assert len({call.work.run_id for call in world.calls}) == MANY
        assert {name: max(counts) for name, counts in sizes.items() if max(counts) > LARGEST_BITE} == {}


@pytest.mark.pitfall(56)
@pytest.mark.parametrize("restart", [False, True])
async def test_what_nobody_runs_what_fails_and_what_is_far_off_do_not_hold_up_what_can_run(
    node: MakeNode, restart: bool
) -> None:
    async with node(at=NOW, slots=64) as world:
        world.serves = lambda target: target.name != "absent"
        failed = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
        succeed = world.outcome
        world.outcome = lambda work: failed if work.job_name == "failing" else succeed(work)
        await create(
            world,
            lot("absent", MANY),
            lot("failing", 50, retry_policy={"max_retries": 9, "initial_interval_sec": 1, "max_interval_sec": 2}),
            lot("far", MANY, due="2027-10-01T10:00:00Z"),
            lot("live", 200),
            lot("live", 200, due="2026-10-01T10:00:45Z"),
        )
        await world.until("2026-10-01T10:00:35Z")
        assert len(live(world)) == 200
        if restart:
            await world.down_until("2026-10-01T10:00:40Z", killed=True)
        await world.until("2026-10-01T10:00:46Z")
        later = live(world)[200:]
        assert len(later) == 200
        assert max(call.started_ms - call.work.scheduled_ms for call in later) < 500
        world.serves = lambda target: True
        await world.until("2026-10-01T10:01:10Z")
        assert sum(call.work.job_name == "absent" for call in world.calls) == MANY, "they run once somebody can"


def live(world: Node) -> list[Any]:
    return [call for call in world.calls if call.work.job_name == "live"]
