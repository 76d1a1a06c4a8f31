"""Workers that belong to a tenant: what they get, and that nothing of others is told or changed by any verb."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from tickwheel.domain.ids import job_id_text, make_job_id, run_id_text
from tickwheel.domain.run import RunState
from tickwheel.ports.workers import WorkerNote

from .asgi_client import AsgiClient
from .bound_tokens import as_tenant
from .pull_world import PullWorld, named, question

A, B = "acme", "bolt"
SECRET = "planted-by-acme"
UNKNOWN_WORKER = "http-w-" + "0" * 32
UNKNOWN_RUN = run_id_text(make_job_id(created_ms=1_000, shard=3, due_ms=2_000, random48=b"nobody"), 2_000)


@pytest.fixture
async def world() -> AsyncIterator[PullWorld]:
    world = await PullWorld().open("operator")
    world.with_own |= {A, B}
    yield world
    await world.close()


async def taken(world: PullWorld, tenant_id: str = A) -> tuple[str, dict[str, Any]]:
    """A worker of the tenant, and the run that it holds."""
    run_id = await world.create(tenant_id=tenant_id, payload={"secret": SECRET} if tenant_id == A else {})
    answer = await world.take(as_tenant(world.client, tenant_id))
    [run] = answer["runs"]
    assert run["run_id"] == run_id
    return answer["worker_id"], run


def snapshot(world: PullWorld, tenant_id: str = A) -> Any:
    """All that the store knows of the tenant's runs and workers; when a worker was seen last, changes."""
    tables = world.store._tables
    sessions = {
        name: (state.note, state.seen_ms)
        for name, state in tables.sessions.items()
        if state.note.tenant_id == tenant_id
    }
    runs = {key: row.run for key, row in tables.ledger.items() if row.run.tenant_id == tenant_id}
    return sessions, runs, dict(tables.dead), set(tables.in_flight)


def told(body: bytes) -> str:
    """An answer without what is the asker's own: the ids that it named, and the name of a session just made."""
    text = re.sub(r"(http|run|job)[-_][\w.-]+", "ID", body.decode())
    return re.sub(r'"instance":"[^"]*"', "", text)


async def test_a_worker_gets_runs_of_its_tenant_and_no_others(world: PullWorld) -> None:
    mine = await world.create(tenant_id=A)
    theirs = await world.create(tenant_id=B)
    other = await world.create(tenant_id="nobody-has-own")
    a, b, all_tenants = (as_tenant(world.client, A), as_tenant(world.other, B), world.client)
    for client, run_id in ((a, mine), (b, theirs), (all_tenants, other)):
        answer = await world.take(client, free=9)
        assert [run["run_id"] for run in answer["runs"]] == [run_id]
        assert (await world.take(client, free=9, me=answer["worker_id"]))["worker_id"] == answer["worker_id"]


async def test_it_works_as_any_other(world: PullWorld) -> None:
    """Beats, ends and leaves, at the node that it polls and at another one."""
    for first, second in ((world.client, world.other), (world.other, world.other)):
        me, run = await taken(world)
        await world.clock.advance(1_500)  # a node reads at most once a second who there is
        client = as_tenant(second, A)
        reply = await client.post("/v1/workers/heartbeat", {"worker_id": me, "runs": [named(run)]})
        assert (reply.json["session_open"], reply.json["runs"][0]["status"]) == (True, "held")
        assert (await world.take(client, me=me, holding=[run["run_id"]]))["worker_id"] == me
        [end] = await world.report("complete", me, named(run), client=as_tenant(first, A))
        assert end["accepted"]
        assert (await world.stored(run["run_id"], A)).state is RunState.SUCCEEDED
        assert (await client.post("/v1/workers/leave", {"worker_id": me})).json == {"left": True}
        assert me not in [worker["worker_id"] for worker in await world.workers()]


Ask = Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]]
"""(worker id, run as it is named) -> path and body"""
VERBS: dict[str, Ask] = {
    "poll": lambda me, run: ("poll", question(me=me, free=0)),
    "poll as its holder": lambda me, run: ("poll", question(me=me, free=0, holding=[])),
    "poll and hold": lambda me, run: ("poll", question(me=me, free=0, holding=[run["run_id"]])),
    "hold": lambda me, run: ("poll", question(free=0, holding=[run["run_id"]])),
    "beat": lambda me, run: ("heartbeat", {"worker_id": me}),
    "keep": lambda me, run: ("heartbeat", {"worker_id": me, "runs": [named(run, progress=0.5)]}),
    "complete": lambda me, run: ("complete", {"worker_id": me, "runs": [named(run, result=1)]}),
    "fail": lambda me, run: ("fail", {"worker_id": me, "runs": [named(run, retryable=False)]}),
    "hand back": lambda me, run: ("fail", {"worker_id": me, "runs": [named(run, unstarted=True)]}),
    "snooze": lambda me, run: ("fail", {"worker_id": me, "runs": [named(run, snooze_seconds=1)]}),
    "cancel": lambda me, run: ("fail", {"worker_id": me, "runs": [named(run, cancelled=True)]}),
    "lose": lambda me, run: ("fail", {"worker_id": me, "runs": [named(run, lost=True)]}),
    "leave": lambda me, run: ("leave", {"worker_id": me}),
    "leave and hold": lambda me, run: ("leave", {"worker_id": me, "holding": [run["run_id"]]}),
}
STATES = ("running", "succeeded", "cancelled")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("node", ["same node", "other node"])
@pytest.mark.parametrize("verb", VERBS)
async def test_another_tenants_worker_and_run_are_unknown(
    world: PullWorld, verb: str, node: str, state: str
) -> None:
    me, run = await taken(world)
    if state == "succeeded":
        await world.report("complete", me, named(run), client=as_tenant(world.client, A))
    elif state == "cancelled":
        await world.client.post(f"/v1/runs/{run['run_id']}/cancel?tenant_id={A}")
    intruder = as_tenant(world.client if node == "same node" else world.other, B)
    own, _ = await taken(world, B)
    before = snapshot(world)
    for worker in (me,) if verb.startswith("leave") else (me, own):
        path, body = VERBS[verb](worker, run)
        reply = await intruder.post(f"/v1/workers/{path}", body)
        unknown_worker = UNKNOWN_WORKER if worker == me else own
        path, body = VERBS[verb](unknown_worker, {**run, "run_id": UNKNOWN_RUN})
        unknown = await intruder.post(f"/v1/workers/{path}", body)
        assert (reply.status, told(reply.body)) == (unknown.status, told(unknown.body))
        assert SECRET.encode() not in reply.body
    assert snapshot(world) == before
    if state == "running":  # and its worker goes on as if nothing had been
        client = as_tenant(world.client, A)
        again = await world.take(client, me=me, holding=[run["run_id"]])
        assert (again["worker_id"], again["runs"], again["lost"]) == (me, [], [])
        [end] = await world.report("complete", me, named(run), client=client)
        assert end["accepted"]


async def test_a_worker_of_a_tenant_is_unknown_to_those_of_none(world: PullWorld) -> None:
    """And the other way round, although these may get any run."""
    me, run = await taken(world)
    shared = (await world.take())["worker_id"]
    answer = await world.take(me=me)
    assert answer["worker_id"] != me
    [state] = [worker for worker in await world.workers() if worker["worker_id"] == me]
    assert state["tenant_id"] == A
    for client in (world.client, as_tenant(world.client, B)):
        assert not (await client.post("/v1/workers/heartbeat", {"worker_id": me})).json["session_open"]
    taken_over = await world.take(as_tenant(world.client, A), me=shared)
    assert taken_over["worker_id"] != shared
    assert (await world.stored(run["run_id"], A)).state is RunState.RUNNING


async def test_a_poll_with_somebody_elses_id_ends_no_poll_of_theirs(world: PullWorld) -> None:
    me = (await world.take(as_tenant(world.client, A)))["worker_id"]
    waiting = asyncio.create_task(world.poll(as_tenant(world.client, A), me=me, wait=20, free=1))
    await world.clock.advance(500)
    await world.poll(as_tenant(world.client, B), me=me)
    await world.clock.advance(500)
    assert not waiting.done()
    run_id = await world.create(tenant_id=A)
    await world.clock.advance(500)
    assert [run["run_id"] for run in (await waiting).json["runs"]] == [run_id]


async def test_the_list_shows_a_tenant_its_own_workers(world: PullWorld) -> None:
    mine = (await world.take(as_tenant(world.client, A)))["worker_id"]
    await world.take(as_tenant(world.client, B))
    shared = (await world.take())["worker_id"]
    in_trust_zone = WorkerNote(name="x", handlers=("work",), tenant_id=A)
    await world.store.enlist_worker("x-1.1", in_trust_zone)

    async def listed(client: AsgiClient, query: str = "") -> dict[str, Any]:
        reply = await client.get(f"/v1/workers{query}")
        return {worker["worker_id"]: worker["tenant_id"] for worker in reply.json["workers"]}

    assert await listed(as_tenant(world.client, A)) == await listed(world.client, f"?tenant_id={A}")
    assert await listed(as_tenant(world.other, A)) == {mine: A, "x-1.1": A}
    everybody = await listed(world.client)
    assert len(everybody) == 4
    assert everybody[shared] is None
    assert await listed(world.client, "?tenant_id=nobody") == {}
    for tenant_id in (B, "nobody"):
        reply = await as_tenant(world.client, A).get(f"/v1/workers?tenant_id={tenant_id}")
        assert (reply.status, reply.code) == (404, "not_found")


async def test_names_of_workers_cannot_be_guessed(world: PullWorld) -> None:
    """128 bits from the system's source, at the place where there is room for them."""
    names = [(await world.take(as_tenant(world.client, A)))["worker_id"] for _ in range(20)]
    random = {re.fullmatch(r"http-w-([0-9a-f]{32})\.tenant-[a-z2-7]{24}", name)[1] for name in names}  # type: ignore[index]
    assert len(random) == 20
    assert A not in names[0], "whose it is, only its tenant knows"


async def test_ids_that_are_none_are_unknown_too(world: PullWorld) -> None:
    await taken(world)
    before = snapshot(world)
    intruder = as_tenant(world.client, B)
    for run_id in ("run_", "x", job_id_text(bytes(16)), UNKNOWN_RUN):
        reply = await intruder.post(
            "/v1/workers/complete", {"worker_id": "x", "runs": [{"run_id": run_id, "fencing_token": 1}]}
        )
        assert msgspec.json.decode(reply.body) == {
            "runs": [{"run_id": run_id, "accepted": False, "reason": "unknown"}]
        }
    assert snapshot(world) == before


async def test_a_request_may_name_both(world: PullWorld) -> None:
    """What is the tenant's own is done, and answered in its place."""
    _, foreign = await taken(world)
    me, run = await taken(world, B)
    client = as_tenant(world.other, B)
    body = [named(foreign), named(run), named(foreign)]
    reply = await client.post("/v1/workers/heartbeat", {"worker_id": me, "runs": body})
    assert [one["status"] for one in reply.json["runs"]] == ["unknown", "held", "unknown"]
    ends = await world.report("complete", me, *body, client=client)
    assert [(end["accepted"], end["reason"]) for end in ends] == [
        (False, "unknown"),
        (True, None),
        (False, "unknown"),
    ]
    assert (await world.stored(run["run_id"], B)).state is RunState.SUCCEEDED
    assert (await world.stored(foreign["run_id"], A)).state is RunState.RUNNING
