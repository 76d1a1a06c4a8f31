"""The pull protocol: taking, keeping and ending runs over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.outcome import RESULT_LIMIT_BYTES, ProgressNote
from tickwheel.domain.run import RunState

from .pull_world import PullWorld, named

ONCE: dict[str, Any] = {"retry_policy": {"max_retries": 0}}
QUICK: dict[str, Any] = {"retry_policy": {"max_retries": 3, "initial_interval_sec": 1, "max_interval_sec": 1}}
GONE = "run_" + "0" * 39
RUN: dict[str, Any] = {"run_id": GONE, "fencing_token": 1}


@pytest.fixture
async def world() -> AsyncIterator[PullWorld]:
    world = await PullWorld().open()
    yield world
    await world.close()


async def held(world: PullWorld, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A worker's id, and a run that it has."""
    await world.create(**fields)
    answer = await world.take()
    [run] = answer["runs"]
    return answer["worker_id"], run


async def test_a_poll_gives_the_whole_run(world: PullWorld) -> None:
    run_id = await world.create(payload={"n": [1, 2.50]}, job_name="sums", priority="HIGH", idempotency_key="k-1")
    answer = await world.take()
    assert answer["worker_id"].startswith("http-w-")
    assert (answer["session_seconds"], answer["lease_seconds"]) == (15, 30)
    assert (answer["cancelled"], answer["lost"]) == ([], [])
    [run] = answer["runs"]
    shown = await world.run(run_id)
    assert run == {
        "run_id": run_id,
        "job_id": shown["job_id"],
        "job_name": "sums",
        "fencing_token": shown["fencing_token"],
        "attempt": 1,
        "max_attempts": 4,
        "lane": "HIGH",
        "tenant_id": "default",
        "handler": "work",
        "target": None,
        "payload": {"n": [1, 2.5]},
        "scheduled_at": shown["scheduled_at"],
        "lease_expires_at": run["lease_expires_at"],
        "timeout_ms": 30_000,
        "idempotency_key": "k-1",
    }
    assert (shown["status"], shown["worker_id"]) == ("RUNNING", answer["worker_id"])


async def test_the_payload_comes_as_it_was_sent(world: PullWorld) -> None:
    raw = b'{"a":1.50,"big":123456789012345678901234567890}'
    body = b'{"schedule_type":"INSTANT","target":{"type":"HANDLER","name":"work"},"payload":' + raw + b"}"
    assert (await world.client.post("/v1/jobs", raw=body)).status == 201
    await world.clock.advance(100)
    assert b'"payload":' + raw in (await world.poll()).body


async def test_a_webhook_comes_with_its_target(world: PullWorld) -> None:
    target = {"endpoint": "https://example.com/x", "method": "PUT", "headers": {"X-A": "b"}, "timeout_seconds": 5}
    await world.client.post("/v1/jobs", {"schedule_type": "INSTANT", "target": target, "payload": 1})
    await world.clock.advance(100)
    assert (await world.take(webhooks=False))["runs"] == []
    [run] = (await world.take(webhooks=True, handlers=[]))["runs"]
    assert run["handler"] is None
    assert run["target"] == {
        "endpoint": "https://example.com/x",
        "method": "PUT",
        "headers": {"X-A": "b"},
        "signing_secrets": [],
    }
    assert run["timeout_ms"] == 5_000


async def test_a_poll_waits_for_work_and_no_longer_than_it_said(world: PullWorld) -> None:
    began_ms = world.clock.now_ms()
    waiting = asyncio.create_task(world.take(wait=20))
    await world.clock.advance(5_000)
    assert not waiting.done()
    await world.create()
    assert len((await waiting)["runs"]) == 1
    waiting = asyncio.create_task(world.take(wait=20))
    await world.clock.advance(19_900)
    assert not waiting.done()
    await world.clock.advance(200)
    assert (await waiting)["runs"] == []
    assert world.clock.now_ms() - began_ms < 26_000


async def test_never_more_runs_than_free_slots_and_only_of_known_handlers(world: PullWorld) -> None:
    for _ in range(5):
        await world.create()
    await world.create("other")
    first = await world.take(free=2)
    assert len(first["runs"]) == 2
    assert (await world.take(me=first["worker_id"], free=0))["runs"] == []
    rest = await world.take(me=first["worker_id"], free=10)
    assert len(rest["runs"]) == 3
    assert {run["handler"] for run in first["runs"] + rest["runs"]} == {"work"}
    assert [run["handler"] for run in (await world.take(handlers=["other"]))["runs"]] == ["other"]


async def test_higher_lanes_come_first(world: PullWorld) -> None:
    for priority in ("LOW", "DEFAULT", "CRITICAL", "HIGH"):
        await world.create(priority=priority)
    lanes = [run["lane"] for run in (await world.take(free=4))["runs"]]
    assert lanes == ["CRITICAL", "HIGH", "DEFAULT", "LOW"]


async def test_slots_reserved_for_lanes_are_kept_when_the_worker_says_what_is_busy(world: PullWorld) -> None:
    for _ in range(9):
        await world.create(priority="LOW")
    answer = await world.take(slots={"total": 8, "free": 8, "busy": {}})
    assert len(answer["runs"]) == 6  # one each is kept for CRITICAL and HIGH
    busy = {"LOW": 6}
    slots = {"total": 8, "free": 2, "busy": busy}
    assert (await world.take(me=answer["worker_id"], slots=slots))["runs"] == []
    await world.create(priority="HIGH")
    [run] = (await world.take(me=answer["worker_id"], slots=slots))["runs"]
    assert run["lane"] == "HIGH"


async def test_a_completed_run_has_its_result(world: PullWorld) -> None:
    worker_id, run = await held(world)
    [answer] = await world.report("complete", worker_id, named(run, result={"pages": 12}))
    assert answer == {"run_id": run["run_id"], "accepted": True, "reason": None}
    shown = await world.stored(run["run_id"])
    assert (shown.state, shown.attempt, shown.result) == (RunState.SUCCEEDED, 1, '{"pages": 12}')


async def test_a_result_that_is_too_long_is_dropped_and_the_run_succeeds(world: PullWorld) -> None:
    worker_id, run = await held(world)
    [answer] = await world.report("complete", worker_id, named(run, result="x" * RESULT_LIMIT_BYTES))
    assert answer["accepted"]
    shown = await world.stored(run["run_id"])
    assert (shown.state, shown.result) == (RunState.SUCCEEDED, None)
    assert "65536" in (shown.result_dropped or "")


@pytest.mark.parametrize("verb", ["complete", "fail"])
async def test_the_same_report_again_is_accepted_again(world: PullWorld, verb: str) -> None:
    worker_id, run = await held(world)
    for client in (world.client, world.client, world.other):
        [answer] = await world.report(verb, worker_id, named(run), client=client)
        assert answer["accepted"], "its answer was lost, so it comes again, to any node"
    other = {"complete": "fail", "fail": "complete"}[verb]
    [answer] = await world.report(other, worker_id, named(run))
    assert (answer["accepted"], answer["reason"]) == (False, "ended")


async def test_a_failed_run_is_tried_again_by_its_policy(world: PullWorld) -> None:
    worker_id, run = await held(world, **QUICK)
    assert (await world.report("fail", worker_id, named(run, error="no luck")))[0]["accepted"]
    shown = await world.run(run["run_id"])
    assert (shown["status"], shown["error"]) == ("SCHEDULED", "no luck")
    await world.clock.advance(2_000)
    [again] = (await world.take(me=worker_id))["runs"]
    assert (again["run_id"], again["attempt"]) == (run["run_id"], 2)
    assert again["fencing_token"] > run["fencing_token"]
    [late] = await world.report("complete", worker_id, named(run))
    assert (late["accepted"], late["reason"]) == (False, "lost"), "the token of attempt 1 is over"
    [good] = await world.report("complete", worker_id, named(again))
    assert good["accepted"]
    assert [a["outcome"] for a in (await world.run(run["run_id"]))["attempts"]] == ["retryable", "success"]


async def test_the_server_decides_what_follows_a_failure(world: PullWorld) -> None:
    worker_id, run = await held(world, **ONCE)
    await world.report("fail", worker_id, named(run, error="once is all"))
    assert (await world.run(run["run_id"]))["status"] == "FAILED"
    worker_id, run = await held(world)
    await world.report("fail", worker_id, named(run, error="never", retryable=False))
    assert (await world.run(run["run_id"]))["status"] == "FAILED"
    worker_id, run = await held(world, **QUICK)
    await world.report("fail", worker_id, named(run, retry_after_seconds=50))
    await world.clock.advance(49_000)
    assert (await world.take(me=worker_id))["runs"] == []
    await world.clock.advance(2_000)
    assert len((await world.take(me=worker_id))["runs"]) == 1


@pytest.mark.parametrize("how", [{"unstarted": True}, {"snooze_seconds": 0}])
async def test_what_is_handed_back_uses_no_attempt_up(world: PullWorld, how: dict[str, Any]) -> None:
    worker_id, run = await held(world, **ONCE)
    for _ in range(3):
        assert (await world.report("fail", worker_id, named(run, **how)))[0]["accepted"]
        await world.clock.advance(400)
        [run] = (await world.take(me=worker_id))["runs"]
        assert run["attempt"] == 1
    await world.report("complete", worker_id, named(run))
    assert (await world.run(run["run_id"]))["status"] == "SUCCEEDED"


async def test_a_worker_can_end_a_run_as_cancelled_or_timed_out(world: PullWorld) -> None:
    worker_id, run = await held(world)
    assert (await world.report("fail", worker_id, named(run, cancelled=True)))[0]["accepted"]
    assert (await world.run(run["run_id"]))["status"] == "CANCELLED"
    worker_id, run = await held(world, **ONCE)
    await world.report("fail", worker_id, named(run, timed_out=True))
    [attempt] = (await world.run(run["run_id"]))["attempts"]
    assert (attempt["outcome"], attempt["error"]) == ("timeout", "timed out")


async def test_each_run_of_a_report_is_answered_by_itself(world: PullWorld) -> None:
    await world.create()
    await world.create()
    answer = await world.take()
    one, two = answer["runs"]
    await world.client.post(f"/v1/runs/{two['run_id']}/cancel")
    unknown = {"run_id": GONE, "fencing_token": 1}
    answers = await world.report(
        "complete",
        answer["worker_id"],
        named(one, fencing_token=one["fencing_token"] + 1),
        {"run_id": "nonsense", "fencing_token": 1},
        unknown,
        named(two),
        named(one),
        named(one),
    )
    assert [a["reason"] for a in answers] == ["lost", "unknown", "unknown", "cancelled", None, None]


async def test_a_heartbeat_keeps_the_lease_and_shows_progress(world: PullWorld) -> None:
    worker_id, run = await held(world)
    for beat in range(1, 10):
        await world.clock.advance(10_000)
        client = world.other if beat % 2 else world.client
        body = named(run, progress=beat / 10, note=f"page {beat}")
        [answer] = await world.report("heartbeat", worker_id, body, client=client)
        assert answer["status"] == "held"
        assert answer["lease_expires_at"] > run["lease_expires_at"]
    shown = await world.stored(run["run_id"])
    assert (shown.state, shown.attempt, shown.worker) == (RunState.RUNNING, 1, worker_id)
    assert (shown.progress, shown.note) == (0.9, "page 9")
    assert [state.incarnation for state in await world.store.workers()] == [worker_id]
    assert (await world.report("complete", worker_id, named(run)))[0]["accepted"]


async def test_a_heartbeat_that_names_a_run_twice_renews_it_once_and_shows_what_came_last(
    world: PullWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, renewed = world.store.renew, list[int]()

    async def noted(batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        renewed.append(len(batch))
        return await renew(batch, notes)

    monkeypatch.setattr(world.store, "renew", noted)
    worker_id, run = await held(world)
    other = named(run) | {"fencing_token": 1}
    answers = await world.report("heartbeat", worker_id, named(run, progress=0.2), other, named(run, progress=0.7))
    assert [answer["status"] for answer in answers] == ["held", "lost", "held"]
    assert renewed == [2]
    assert (await world.stored(run["run_id"])).progress == 0.7


async def test_a_run_whose_lease_is_over_is_lost(world: PullWorld) -> None:
    worker_id, run = await held(world, **QUICK)
    keep = {"worker_id": worker_id}
    for _ in range(4):
        await world.clock.advance(10_000)
        assert (await world.client.post("/v1/workers/heartbeat", keep)).json["session_open"]
    [again] = (await world.take())["runs"]
    assert (again["run_id"], again["attempt"]) == (run["run_id"], 2)
    [beat] = await world.report("heartbeat", worker_id, named(run))
    assert (beat["status"], beat["lease_expires_at"]) == ("lost", None)
    for verb in ("complete", "fail"):
        [answer] = await world.report(verb, worker_id, named(run))
        assert (answer["accepted"], answer["reason"]) == (False, "lost")
    assert (await world.run(run["run_id"]))["status"] == "RUNNING"


async def test_a_cancelled_run_is_told_with_the_next_beat(world: PullWorld) -> None:
    worker_id, run = await held(world)
    await world.client.post(f"/v1/runs/{run['run_id']}/cancel")
    [beat] = await world.report("heartbeat", worker_id, named(run))
    assert beat["status"] == "cancelled"
    [answer] = await world.report("complete", worker_id, named(run))
    assert (answer["accepted"], answer["reason"]) == (False, "cancelled")
    [beat] = await world.report("heartbeat", worker_id, {"run_id": "nonsense", "fencing_token": 1})
    assert beat["status"] == "unknown"


async def test_a_waiting_poll_tells_of_a_cancelled_run_at_once(world: PullWorld) -> None:
    worker_id, run = await held(world)
    asked: dict[str, Any] = {"me": worker_id, "free": 0, "wait": 20, "holding": [run["run_id"]]}
    waiting = asyncio.create_task(world.take(**asked))
    await world.clock.advance(3_000)
    assert not waiting.done()
    await world.client.post(f"/v1/runs/{run['run_id']}/cancel")
    await world.clock.advance(1_100)
    assert (await waiting)["cancelled"] == [run["run_id"]]
    waiting = asyncio.create_task(world.take(**asked))
    await world.clock.advance(5_000)
    assert not waiting.done(), "what it was told already is no reason to answer at once, over and over"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_poll_tells_of_a_lost_run(world: PullWorld) -> None:
    worker_id, run = await held(world)
    for _ in range(4):
        await world.clock.advance(10_000)
        answer = await world.take(me=worker_id, free=0, holding=[run["run_id"]])
    assert (answer["lost"], answer["cancelled"]) == ([run["run_id"]], [])


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("poll", {"slots": {"total": 1, "free": 1}}, "handlers"),
        ("poll", {"handlers": ["a"]}, "slots"),
        ("poll", {"handlers": ["a"], "slots": {"total": 1, "free": 2}}, "slots.free"),
        ("poll", {"handlers": ["a"], "slots": {"total": 0, "free": 0}}, "slots.total"),
        ("poll", {"handlers": ["a"], "slots": {"total": 2000, "free": 1001}}, "slots.free"),
        ("poll", {"handlers": [""], "slots": {"total": 1, "free": 1}}, "handlers[0]"),
        ("poll", {"handlers": ["a"] * 501, "slots": {"total": 1, "free": 1}}, "handlers"),
        ("poll", {"handlers": ["a"], "slots": {"total": 1, "free": 1}, "wait_seconds": 31}, "wait_seconds"),
        ("poll", {"handlers": ["a"], "slots": {"total": 1, "free": 1, "busy": {"high": 1}}}, "slots.busy.high"),
        ("poll", {"handlers": ["a"], "slots": {"total": 1, "free": 1}, "wait": 3}, "wait"),
        ("heartbeat", {"runs": []}, "worker_id"),
        ("heartbeat", {"worker_id": "w", "runs": [{"run_id": GONE}]}, "runs[0].fencing_token"),
        (
            "heartbeat",
            {"worker_id": "w", "runs": [{"run_id": GONE, "fencing_token": 1, "progress": 1.1}]},
            "runs[0].progress",
        ),
        ("complete", {"worker_id": "w", "runs": []}, "runs"),
        ("complete", {"worker_id": "w", "runs": [{"run_id": GONE, "fencing_token": -1}]}, "runs[0].fencing_token"),
        ("complete", {"worker_id": "w", "runs": [{"run_id": GONE, "fencing_token": 1}] * 1001}, "runs"),
        (
            "fail",
            {
                "worker_id": "w",
                "runs": [{"run_id": GONE, "fencing_token": 1, "unstarted": True, "cancelled": True}],
            },
            "runs[0].cancelled",
        ),
        (
            "fail",
            {"worker_id": "w", "runs": [{**RUN, "retryable": False, "retry_after_seconds": 1}]},
            "runs[0].retry_after_seconds",
        ),
        ("leave", {}, "worker_id"),
    ],
)
async def test_what_is_wrong_is_named(world: PullWorld, path: str, body: object, field: str) -> None:
    reply = await world.client.post(f"/v1/workers/{path}", body)
    assert (reply.status, reply.code, reply.fields) == (422, "invalid_request", [field])


async def test_a_batch_that_is_wrong_changes_nothing(world: PullWorld) -> None:
    worker_id, run = await held(world)
    body = {"worker_id": worker_id, "runs": [named(run), named(run, unstarted=True, timed_out=True)]}
    assert (await world.client.post("/v1/workers/fail", body)).fields == ["runs[1].timed_out"]
    assert (await world.run(run["run_id"]))["status"] == "RUNNING"
