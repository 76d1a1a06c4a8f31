"""Sessions of workers that poll: how they begin and end, and what becomes of what their workers held."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.run import RunState
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.authentication import Authentication

from .pull_world import PullWorld, named, question


@pytest.fixture
async def world() -> AsyncIterator[PullWorld]:
    world = await PullWorld().open()
    yield world
    await world.close()


QUICK: dict[str, Any] = {"retry_policy": {"max_retries": 3, "initial_interval_sec": 1, "max_interval_sec": 1}}


async def test_a_worker_is_listed_with_what_it_said(world: PullWorld) -> None:
    body = question(free=1, webhooks=True, handlers=["b", "a", "b"], slots={"total": 4, "free": 1})
    body["worker"] = {"name": "reports", "version": "1.2", "draining": True}
    worker_id = (await world.client.post("/v1/workers/poll", body)).json["worker_id"]
    [worker] = await world.workers()
    assert worker == {
        "worker_id": worker_id,
        "name": "reports",
        "tenant_id": None,
        "via": "http",
        "version": "1.2",
        "handlers": ["b", "a"],
        "webhooks": True,
        "slots": 4,
        "busy": 3,
        "enlisted_at": worker["enlisted_at"],
        "seen_at": worker["enlisted_at"],
        "draining": True,
        "stalled": False,
    }


async def test_a_session_goes_on_under_its_id_at_any_node(world: PullWorld) -> None:
    worker_id = (await world.take())["worker_id"]
    for client in (world.other, world.client):
        await world.clock.advance(5_000)
        assert (await world.take(client, me=worker_id))["worker_id"] == worker_id
    assert [worker["worker_id"] for worker in await world.workers()] == [worker_id]


async def test_a_waiting_poll_keeps_the_session(world: PullWorld) -> None:
    worker_id = (await world.take())["worker_id"]
    waiting = asyncio.create_task(world.take(me=worker_id, wait=30, handlers=["nothing"]))
    for _ in range(9):
        await world.clock.advance(3_000)
        [state] = await world.store.workers()
        assert world.clock.now_ms() - state.seen_ms <= 3_100
    await world.clock.advance(4_000)
    await waiting


async def test_a_session_that_is_over_is_followed_by_a_new_one(world: PullWorld) -> None:
    await world.create(**QUICK)
    first = await world.take()
    [run] = first["runs"]
    assert await world.store.end_worker(first["worker_id"])
    await world.clock.advance(3_000)
    beat = await world.client.post("/v1/workers/heartbeat", {"worker_id": first["worker_id"]})
    assert not beat.json["session_open"]
    second = await world.take(me=first["worker_id"], holding=[run["run_id"]], free=0)
    assert second["worker_id"] != first["worker_id"]
    assert second["lost"] == [run["run_id"]]
    [answer] = await world.report("complete", first["worker_id"], named(run))
    assert (answer["accepted"], answer["reason"]) == (False, "lost")


async def test_the_session_of_another_kind_of_worker_is_not_taken_over(world: PullWorld) -> None:
    await world.store.enlist_worker("store-worker-1", WorkerNote(name="s"))
    assert (await world.take(me="store-worker-1"))["worker_id"].startswith("http-")
    await world.client.post("/v1/workers/leave", {"worker_id": "store-worker-1"})
    assert {worker["via"] for worker in await world.workers()} == {"store", "http"}


async def test_leaving_ends_the_session_and_gives_up_what_is_held(world: PullWorld) -> None:
    await world.create(**QUICK)
    await world.create(**QUICK)
    answer = await world.take()
    one, two = answer["runs"]
    body = {"worker_id": answer["worker_id"], "holding": [one["run_id"]]}
    assert (await world.client.post("/v1/workers/leave", body)).json == {"left": True}
    assert await world.workers() == []
    await world.clock.advance(1_500)
    attempts = {run["run_id"]: run["attempt"] for run in (await world.take())["runs"]}
    assert attempts == {one["run_id"]: 2, two["run_id"]: 1}, "what it held may have begun, the other one did not"


async def test_undelivered_runs_come_back_at_once_and_use_no_attempt_up(world: PullWorld) -> None:
    await world.create(retry_policy={"max_retries": 0})
    first = await world.take(holding=[])
    [run] = first["runs"]  # this answer never arrives: the next poll does not name its run
    again = asyncio.create_task(world.take(me=first["worker_id"], holding=[], wait=5))
    await world.clock.advance(300)
    [same] = (await again)["runs"]
    assert (same["run_id"], same["attempt"]) == (run["run_id"], 1)
    assert same["fencing_token"] > run["fencing_token"]
    assert (await world.report("complete", first["worker_id"], named(same)))[0]["accepted"]


async def test_what_is_held_or_not_said_is_not_handed_back(world: PullWorld) -> None:
    await world.create()
    first = await world.take(holding=[])
    [run] = first["runs"]
    says: list[dict[str, Any]] = [{"holding": [run["run_id"]]}, {}]
    for holding in says:
        await world.take(me=first["worker_id"], **holding)
        await world.clock.advance(300)
        assert (await world.stored(run["run_id"])).fence == run["fencing_token"]
    assert (await world.report("complete", first["worker_id"], named(run)))[0]["accepted"]


async def test_runs_begun_for_a_connection_that_broke_are_handed_back(world: PullWorld) -> None:
    worker_id = (await world.take())["worker_id"]
    reply = asyncio.create_task(world.client.post("/v1/workers/poll", question(me=worker_id, wait=20), hangs=True))
    await until_polling(world)
    take = world.desks[0]._polling._taking.take

    async def take_while_the_client_dies(*arguments: Any) -> Any:
        taken = await take(*arguments)
        if taken.begun:
            world.client.hang_up()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return taken

    world.desks[0]._polling._taking.take = take_while_the_client_dies  # type: ignore[assignment,method-assign]
    run_id = await world.create(retry_policy={"max_retries": 0})
    await reply
    await world.clock.advance(200)
    [run] = (await world.take(world.other))["runs"]
    assert (run["run_id"], run["attempt"]) == (run_id, 1)
    await world.clock.advance(1_000)


async def test_a_worker_whose_poll_breaks_is_taken_over_within_two_seconds(world: PullWorld) -> None:
    run_id = await world.create(**QUICK)
    first = await world.take(holding=[])
    asked = question(me=first["worker_id"], free=0, wait=20, holding=[run_id])
    waiting = asyncio.create_task(world.client.post("/v1/workers/poll", asked, hangs=True))
    await world.clock.advance(5_000)
    broke_ms = world.clock.now_ms()
    world.client.hang_up()
    await waiting
    while (await world.stored(run_id)).state is RunState.RUNNING:
        await world.clock.advance(50)
    assert world.clock.now_ms() - broke_ms < 1_000
    assert await world.workers() == []
    await world.clock.advance(1_100)
    [run] = (await world.take(world.other))["runs"]
    assert (run["run_id"], run["attempt"]) == (run_id, 2)
    assert world.clock.now_ms() - broke_ms < 3_000


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_worker_that_polls_again_after_a_break_lives(world: PullWorld, elsewhere: bool) -> None:
    run_id = await world.create()
    first = await world.take(holding=[])
    [run] = first["runs"]
    asked = question(me=first["worker_id"], free=0, wait=20, holding=[run_id])
    waiting = asyncio.create_task(world.client.post("/v1/workers/poll", asked, hangs=True))
    await world.clock.advance(1_000)
    world.client.hang_up()
    await waiting
    await world.clock.advance(100)
    again = world.other if elsewhere else world.client
    polling = asyncio.create_task(again.post("/v1/workers/poll", asked))
    await world.clock.advance(8_000)
    assert [worker["worker_id"] for worker in await world.workers()] == [first["worker_id"]]
    assert (await world.report("complete", first["worker_id"], named(run)))[0]["accepted"]
    await world.clock.advance(20_000)
    await polling


async def test_a_connection_that_closes_between_polls_says_nothing(world: PullWorld) -> None:
    """Tools such as curl close theirs after each answer."""
    run_id = await world.create()
    first = await world.take()
    await world.clock.advance(10_000)
    assert (await world.stored(run_id)).state is RunState.RUNNING
    assert (await world.report("complete", first["worker_id"], named(first["runs"][0])))[0]["accepted"]


async def test_a_later_poll_ends_the_earlier_one(world: PullWorld) -> None:
    worker_id = (await world.take())["worker_id"]
    earlier = asyncio.create_task(world.take(me=worker_id, wait=20))
    await world.clock.advance(1_000)
    later = asyncio.create_task(world.take(me=worker_id, wait=20))
    await world.clock.advance(100)
    assert (await earlier)["runs"] == []
    await world.create()
    assert len((await later)["runs"]) == 1


async def test_a_node_that_stops_answers_its_polls_and_still_takes_reports(world: PullWorld) -> None:
    await world.create()
    first = await world.take()
    waiting = asyncio.create_task(world.take(me=first["worker_id"], wait=20))
    await world.clock.advance(1_000)
    world.desks[0].stop_polls()
    await world.clock.advance(10)
    assert (await waiting)["runs"] == []
    assert (await world.poll(me=first["worker_id"])).code == "store_unavailable"
    assert (await world.report("complete", first["worker_id"], named(first["runs"][0])))[0]["accepted"]


async def test_a_token_is_needed_where_there_are_some() -> None:
    world = await PullWorld().open("secret")
    assert (await world.take())["runs"] == []
    for path in ("poll", "heartbeat", "complete", "fail", "leave"):
        reply = await world.client.post(f"/v1/workers/{path}", {}, headers={"Authorization": "Bearer other"})
        assert (reply.status, reply.code) == (401, "unauthorized")
    await world.close()


async def until_polling(world: PullWorld) -> None:
    while not any(session.poll for session in world.desks[0]._sessions.known()):
        await world.clock.advance(10)


async def test_how_long_runs_take_is_noted_with_the_session(world: PullWorld) -> None:
    for _ in range(3):
        await world.create()
        answer = await world.take(me=(await world.workers() or [{"worker_id": None}])[0]["worker_id"])
        await world.clock.advance(4_000)
        assert (await world.report("complete", answer["worker_id"], named(answer["runs"][0])))[0]["accepted"]
    await world.clock.advance(4_000)
    await world.take(me=answer["worker_id"])
    [state] = await world.store.workers()
    assert 4_000 <= state.note.run_ms < 4_200


async def test_a_report_while_the_store_is_away_is_answered_and_accepted_later(
    world: PullWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create()
    first = await world.take()
    [run] = first["runs"]
    body = {"worker_id": first["worker_id"], "runs": [named(run)]}
    with monkeypatch.context() as patched:
        patched.setattr(world.store, "complete", away)
        reporting = asyncio.create_task(world.client.post("/v1/workers/complete", body))
        await world.clock.advance(9_000)
        assert not reporting.done()
        await world.clock.advance(2_000)
        reply = await reporting
        assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "outcome_unknown", "1")
        patched.setattr(world.store, "find_runs", away)
        assert (await world.other.post("/v1/workers/complete", body)).code == "store_unavailable"
    await world.clock.advance(3_000)
    assert (await world.stored(run["run_id"])).state is RunState.SUCCEEDED, "it was committed without being asked"
    for client in (world.client, world.other):
        assert (await world.report("complete", first["worker_id"], named(run), client=client))[0]["accepted"]


async def test_a_poll_while_the_store_is_away_begins_nothing_and_loses_nothing(
    world: PullWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_id = (await world.take())["worker_id"]
    run_id = await world.create(retry_policy={"max_retries": 0})
    with monkeypatch.context() as patched:
        patched.setattr(world.store, "begin", away)
        assert (await world.poll(me=worker_id)).code == "store_unavailable"
    await world.clock.advance(30_000)  # the hint is visible again
    [run] = (await world.take(me=worker_id))["runs"]
    assert (run["run_id"], run["attempt"]) == (run_id, 1)


async def away(*arguments: Any, **named_arguments: Any) -> Any:
    raise StoreUnavailable("the store is away")


async def test_a_poll_whose_token_is_taken_back_while_it_waits_gets_no_runs(
    world: PullWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a worker that was shut out would get one more answer, with the secrets of its runs."""
    held = True
    monkeypatch.setattr(Authentication, "still_holds", lambda self, token: held)
    client = world.client.with_token("somebody")
    waiting = asyncio.create_task(world.take(client, wait=30))
    await world.clock.advance(1_000)
    assert not waiting.done()
    held = False
    run_id = await world.create()
    await world.clock.advance(2_000)
    assert (await waiting)["runs"] == []
    held = True
    [run] = (await world.take(client))["runs"]
    assert (run["run_id"], run["attempt"]) == (run_id, 1)
