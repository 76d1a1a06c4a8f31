"""Tenants through the API of a whole server on SQLite, on virtual time: a noisy one and a quiet one."""

from typing import Any

from .conftest import MakeNode
from .node import MINUTE_MS, SECOND_MS, Node

TARGET = {"endpoint": "http://127.0.0.1:9/"}
NOISY, QUIET = "noisy", "quiet"


async def limit(world: Node, tenant_id: str = NOISY, **record: Any) -> None:
    reply = await world.client.request("PUT", f"/v1/tenants/{tenant_id}", record)
    assert reply.status == 200, reply.body


async def make(world: Node, tenant_id: str, due_ms: list[int]) -> int:
    """How many of these jobs were made."""
    body = [
        {"schedule_type": "ONE_OFF", "run_at_epoch_ms": at_ms, "target": TARGET, "tenant_id": tenant_id}
        for at_ms in due_ms
    ]
    reply = await world.client.post("/v1/jobs/batch", body)
    created: int = reply.json["created_count"]
    return created


def begun(world: Node, tenant_id: str) -> list[int]:
    return [call.started_ms for call in world.calls if call.work.tenant_id == tenant_id]


async def test_a_noisy_tenant_at_all_its_limits_leaves_another_one_on_time(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:00Z", slots=16) as world:
        world.work_ms = lambda work: 400
        await limit(world, limits={"max_jobs": 500, "due_per_second": 50, "concurrency": 4})
        first_ms = world.now() + 5 * SECOND_MS
        flood = [first_ms + number // 50 * SECOND_MS for number in range(1_000)]
        assert await make(world, NOISY, flood) == 500
        assert await make(world, NOISY, [first_ms]) == 0
        calm = [first_ms + number * 200 for number in range(50)]
        assert await make(world, QUIET, calm) == 50
        await world.until(first_ms + 12 * SECOND_MS)
        late_ms = [at_ms - due_ms for at_ms, due_ms in zip(sorted(begun(world, QUIET)), calm, strict=True)]
        assert max(late_ms) < 100
        noisy = sorted(begun(world, NOISY))
        assert max(sum(0 <= later - at_ms < 400 for later in noisy) for at_ms in noisy) <= 4
        usage = (await world.client.get(f"/v1/tenants/{NOISY}/usage")).json
        used = {one["limit"]: one["used"] for one in usage["limits"]}
        assert (used["max_jobs"], used["concurrency"]) == (500, 4)
        await world.until(world.now() + 2 * MINUTE_MS)
        assert len(begun(world, NOISY)) == 500


async def test_what_fires_above_the_limit_goes_in_the_next_seconds(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:00Z") as world:
        due_ms = world.now() + 5 * SECOND_MS
        assert await make(world, NOISY, [due_ms] * 100) == 100  # before there was a limit
        await limit(world, limits={"due_per_second": 30})
        await world.until(due_ms + 900)
        assert len(begun(world, NOISY)) == 30
        listed = await world.client.get(f"/v1/jobs?tenant_id={NOISY}&status=SCHEDULED&limit=1")
        shown = await world.get(listed.json["jobs"][0]["job_id"], f"?tenant_id={NOISY}")
        assert shown.json["waits_for"] == "due_per_second"
        await world.until(due_ms + 5 * SECOND_MS)
        seconds = [at_ms // SECOND_MS for at_ms in begun(world, NOISY)]
        assert [seconds.count(second) for second in sorted(set(seconds))] == [30, 30, 30, 10]


async def test_a_disabled_tenant_stays_so_over_a_restart(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:00Z") as world:
        due_ms = world.now() + 5 * SECOND_MS
        assert await make(world, NOISY, [due_ms] * 20) == 20
        await limit(world, disabled=True)
        await world.until(due_ms + 10 * SECOND_MS)
        await world.stop()
        await world.open()
        assert await make(world, NOISY, [due_ms]) == 0
        await world.until(world.now() + MINUTE_MS)
        assert not begun(world, NOISY)
        await limit(world)
        await world.until(world.now() + 10 * SECOND_MS)
        assert len(begun(world, NOISY)) == 20
