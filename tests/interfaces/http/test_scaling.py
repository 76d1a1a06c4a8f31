"""The figures for autoscalers, the manifests that use them, and that metrics don't grow with workers."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from tickwheel.interfaces.http.app import build_app
from tickwheel.ports.workers import WorkerNote
from tickwheel.wiring.scaling import build_demand

from .asgi_client import AsgiClient
from .hiring_world import HiringWorld
from .pull_world import PullWorld

DOCS = Path(__file__).parents[3] / "docs"
LARGEST_METRICS_BYTES = 5 << 20


@pytest.fixture
async def world() -> AsyncIterator[HiringWorld]:
    world = await HiringWorld().open()
    yield world
    await world.close()


async def scaling(world: HiringWorld, query: str = "?drain_seconds=10&slots_per_worker=5") -> dict[str, Any]:
    reply = await world.client.get(f"/v1/scaling{query}")
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = reply.json
    return answer


async def test_nothing_to_do_needs_nobody(world: HiringWorld) -> None:
    answer = await scaling(world)
    assert (answer["needed_workers"], answer["backlog"], answer["workers"]) == (0, 0, 0)
    assert set(answer["lanes"]) == {"CRITICAL", "HIGH", "DEFAULT", "LOW"}


async def test_a_node_that_knows_of_no_owner_does_not_make_figures_up(world: HiringWorld) -> None:
    knows_nobody = build_demand(None, lambda: None, world.store, world.clock)
    client = AsgiClient(build_app(replace(world.deps, demand=knows_nobody)))
    reply = await client.get("/v1/scaling")
    assert (reply.status, reply.code) == (503, "not_ready")


async def test_work_that_nobody_serves_brings_the_first_worker(world: HiringWorld) -> None:
    await world.create(schedule_type="INSTANT")  # a webhook, which the node calls itself
    for _ in range(3):
        await world.work_job(priority="HIGH")
    await world.clock.advance(60_000)
    answer = await scaling(world)
    assert (answer["backlog"], answer["workers"], answer["slots_per_worker"]) == (3, 0, 5)
    assert answer["needed_workers"] == answer["lanes"]["HIGH"]["needed_workers"] == 1
    assert answer["lanes"]["DEFAULT"]["backlog"] == 0
    assert 60_000 <= answer["oldest_due_age_ms"] < 62_000
    await world.close()


async def test_a_backlog_needs_more_workers_until_it_is_gone(world: HiringWorld) -> None:
    worker_id = await world.hire()
    for _ in range(120):
        await world.work_job()
    await world.clock.advance(2_000)
    before = await scaling(world)
    assert before["backlog"] >= 110
    assert before["lanes"]["DEFAULT"]["arrivals_per_second"] > 1
    assert before["needed_workers"] > 2
    done = 0
    while done < 120:
        for run in await world.poll(worker_id):
            assert (await world.report("complete", worker_id, run))["accepted"]
            done += 1
    for _ in range(7):
        await world.clock.advance(10_000)
        worker_id = await world.hire(me=worker_id, free=2)
    after = await scaling(world)
    assert (after["backlog"], after["arrivals_per_second"], after["needed_workers"]) == (0, 0, 0)
    assert (after["workers"], after["slots"]) == (1, 2)
    await world.close()


@pytest.mark.parametrize("query", ["slots_per_worker=0", "drain_seconds=0", "drain_seconds=x", "lane=HIGH"])
async def test_a_wrong_parameter_is_named(world: HiringWorld, query: str) -> None:
    reply = await world.client.get(f"/v1/scaling?{query}")
    assert (reply.status, reply.fields) == (422, [query.partition("=")[0]])


async def test_a_node_that_fires_nothing_has_no_figures() -> None:
    world = await PullWorld().open()
    assert (await world.client.get("/v1/scaling")).code == "not_ready"
    await world.close()


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DOCS / "examples" / name).read_text()))


async def test_the_manifest_for_keda_asks_for_what_is_there(world: HiringWorld) -> None:
    kinds = {document["kind"]: document for document in documents("keda-scaledobject.yaml")}
    assert set(kinds) == {"Secret", "TriggerAuthentication", "ScaledObject"}
    [trigger] = kinds["ScaledObject"]["spec"]["triggers"]
    assert (trigger["type"], trigger["metadata"]["authMode"]) == ("metrics-api", "bearer")
    [secret] = kinds["TriggerAuthentication"]["spec"]["secretTargetRef"]
    assert secret["key"] in kinds["Secret"]["stringData"]
    assert secret["name"] == kinds["Secret"]["metadata"]["name"]
    assert trigger["authenticationRef"]["name"] == kinds["TriggerAuthentication"]["metadata"]["name"]
    address = urlsplit(trigger["metadata"]["url"])
    answer: Any = (await world.client.get(f"{address.path}?{address.query}")).json
    for step in trigger["metadata"]["valueLocation"].split("."):
        answer = answer[step]
    assert answer == 0
    assert float(trigger["metadata"]["targetValue"]) == 1


async def test_the_manifest_for_hpa_and_the_page_name_metrics_that_are_there(world: HiringWorld) -> None:
    [hpa] = documents("hpa.yaml")
    metrics = world.metrics.render().decode()
    [wanted] = hpa["spec"]["metrics"]
    names = {wanted["external"]["metric"]["name"]}
    names |= set(re.findall(r"`(tickwheel_\w+)`", (DOCS / "how-to" / "autoscaling.md").read_text()))
    assert len(names) > 5
    for name in names:
        assert re.search(rf"^{name}[ {{]", metrics, re.MULTILINE), name


@pytest.mark.pitfall(100)
async def test_metrics_do_not_grow_with_workers_that_come_and_go(world: HiringWorld) -> None:
    """10,000 workers with names and handlers of their own, and a schedule for each."""
    series: set[int] = set()
    for part in range(100):
        names = [f"worker-{part}-{number}" for number in range(100)]
        for name in names:
            await world.store.enlist_worker(name, WorkerNote(name=name, handlers=(f"handler of {name}",), slots=3))
        due_ms = [0] * 3 + [7_200_000] * 97
        jobs = [
            world.job(handler=f"handler of {n}", name=n, in_ms=ms) for n, ms in zip(names, due_ms, strict=True)
        ]
        await world.add(world.scheduler, *jobs)
        await world.scheduler.elsewhere.watch._read()
        await world.clock.advance(20)
        text = world.metrics.render()
        assert len(text) < LARGEST_METRICS_BYTES
        series.add(text.count(b"\n"))
        assert b"worker-" not in text
        assert b"tickwheel_workers 100.0" in text
        for name in names:
            await world.store.end_worker(name)
    assert len(series) == 1
    await world.clock.advance(120_000)
    assert len(world.scheduler.elsewhere.routes._seen_mono_ms) == 0
    await world.close()
