"""The id of a request, and the trace that its jobs go on with."""

import re
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tickwheel.domain.access import Role
from tickwheel.domain.ids import parse_job_id
from tickwheel.domain.trace_context import read_context
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.refused_tokens import LINES_PER_MINUTE, RefusedTokens
from tickwheel.interfaces.http.request_log import RequestLog
from tickwheel.ports.registry import Act
from tickwheel.ports.spans import Span, SpanKind
from tickwheel.services.tracing.request_traces import RequestTraces
from tickwheel.testing.seeded_randomness import SeededRandomness

from .asgi_client import AsgiClient
from .world import HttpWorld, one_off

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Kept:
    """Spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        self.spans.append(span)


def watched(world: HttpWorld, kept: Kept | None = None, sample_parts: int = 0) -> AsgiClient:
    traces = RequestTraces(world.clock, SeededRandomness(4), kept, sample_parts)
    return AsgiClient(build_app(replace(world.deps, watch=RequestLog(traces, world.clock, "node7"))))


async def stored_trace(world: HttpWorld, job_id: str) -> str:
    (work,) = await world.store.load_work([parse_job_id(job_id)])
    assert work is not None
    view = await world.store.get_job("default", parse_job_id(job_id))
    assert view is not None
    return view.job.spec.trace


async def test_a_sound_id_of_the_client_comes_back_and_another_one_is_replaced(world: HttpWorld) -> None:
    client = watched(world)
    for sound in ("order-7", "a" * 128, "4bf92f35:1/2+3=@_"):
        reply = await client.get("/v1/jobs", headers={"X-Request-Id": sound})
        assert reply.headers["x-request-id"] == sound
    for hostile in ("", "a" * 129, "a b", "a;b", "<script>"):
        reply = await client.get("/v1/jobs", headers={"X-Request-Id": hostile})
        assert re.fullmatch(r"node7-\d+", reply.headers["x-request-id"])


async def test_each_answer_has_an_id_of_its_own_a_refusal_too(world: HttpWorld) -> None:
    client = watched(world)
    replies = [await client.get(path) for path in ("/v1/jobs", "/v1/jobs", "/nowhere", "/v1/jobs/x", "/healthz")]
    assert len({reply.headers["x-request-id"] for reply in replies}) == 5


@pytest.mark.parametrize("kept", [None, Kept()])
async def test_a_job_keeps_the_trace_of_its_request(world: HttpWorld, kept: Kept | None) -> None:
    reply = await watched(world, kept).post("/v1/jobs", one_off(), headers=SAMPLED | {"tracestate": "a=1"})
    context = read_context(await stored_trace(world, reply.json["job_id"]))
    assert context is not None
    assert (context.trace_id, context.state, context.sampled) == (TRACE, "a=1", True)
    if kept is None:
        assert (context.span_id, context.told) == (PARENT, False)
    else:
        (span,) = kept.spans
        assert (span.name, span.kind, span.parent_id) == ("POST /v1/jobs", SpanKind.SERVER, PARENT)
        assert (context.span_id, context.told) == (span.span_id, True)


async def test_a_job_without_a_trace_stores_nothing_of_one(world: HttpWorld) -> None:
    reply = await watched(world, Kept()).post("/v1/jobs", one_off())
    assert await stored_trace(world, reply.json["job_id"]) == ""


async def test_what_is_shown_of_a_job_has_no_trace(world: HttpWorld) -> None:
    client = watched(world, Kept())
    job_id = (await client.post("/v1/jobs", one_off(), headers=SAMPLED)).json["job_id"]
    shown = await client.get(f"/v1/jobs/{job_id}")
    entries = await client.get("/v1/audit-log")
    assert TRACE not in shown.body.decode() + entries.body.decode()


async def test_the_same_request_in_another_trace_is_a_repetition(world: HttpWorld) -> None:
    client = watched(world, Kept())
    first = await client.post("/v1/jobs", one_off(), headers=SAMPLED | {"Idempotency-Key": "k"})
    other = {"traceparent": f"00-{'a' * 32}-{PARENT}-01", "Idempotency-Key": "k"}
    for headers in (other, {"Idempotency-Key": "k"}):
        again = await client.post("/v1/jobs", one_off(), headers=headers)
        assert (again.status, again.json["job_id"]) == (201, first.json["job_id"])
        assert again.headers["idempotent-replayed"] == "true"


async def test_putting_the_same_in_another_trace_changes_nothing_and_a_change_is_of_its_trace(
    world: HttpWorld,
) -> None:
    client = watched(world, Kept())
    body: dict[str, Any] = one_off() | {"schedule_type": "CRON", "cron_expression": "0 0 * * *"}
    body.pop("delay_seconds", None)
    first = await client.request("PUT", "/v1/jobs/by-name/n", body, headers=SAMPLED)
    kept = await stored_trace(world, first.json["job_id"])
    other = {"traceparent": f"00-{'a' * 32}-{PARENT}-01"}
    same = await client.request("PUT", "/v1/jobs/by-name/n", body, headers=other)
    assert same.headers["etag"] == first.headers["etag"]
    assert await stored_trace(world, first.json["job_id"]) == kept
    changed = await client.request("PUT", "/v1/jobs/by-name/n", body | {"payload": 7}, headers=other)
    assert changed.headers["etag"] != first.headers["etag"]
    context = read_context(await stored_trace(world, first.json["job_id"]))
    assert context is not None
    assert context.trace_id == "a" * 32


async def test_a_triggered_job_is_of_the_trace_that_triggered_it(world: HttpWorld) -> None:
    kept = Kept()
    client = watched(world, kept)
    job_id = (await client.post("/v1/jobs", one_off())).json["job_id"]
    made = await client.request("POST", f"/v1/jobs/{job_id}/trigger", headers=SAMPLED)
    context = read_context(await stored_trace(world, made.json["job_id"]))
    assert context is not None
    assert context.trace_id == TRACE
    assert [span.name for span in kept.spans] == ["POST /v1/jobs/{job_id}/trigger"]


@pytest.mark.parametrize(("parts", "least", "most"), [(0, 0, 0), (250_000, 20, 80), (1_000_000, 200, 200)])
async def test_a_share_of_the_requests_begins_traces(world: HttpWorld, parts: int, least: int, most: int) -> None:
    kept = Kept()
    client = watched(world, kept, parts)
    for _ in range(200):
        assert (await client.post("/v1/jobs", one_off())).status == 201
    assert least <= len(kept.spans) <= most
    assert len({span.trace_id for span in kept.spans}) == len(kept.spans)


async def test_the_caller_decides_whatever_the_share_is(world: HttpWorld) -> None:
    kept = Kept()
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    await watched(world, kept, 1_000_000).post("/v1/jobs", one_off(), headers=unsampled)
    assert kept.spans == []


async def test_a_refused_token_leaves_its_source_and_the_id_of_its_key() -> None:
    locked = await HttpWorld().open("static-token-0123456789")
    key = await locked.keys.create(role=Role.READER, tenant_id="acme", act=Act("test", "token.create"))
    await locked.keys.revoke(None, key.view.key_id, Act("test", "token.revoke"))
    traces = RequestTraces(locked.clock, SeededRandomness(4), None, 0)
    with capture_logs() as lines:
        watch = RequestLog(traces, locked.clock, "node7", writes_lines=True)
        client = AsgiClient(build_app(replace(locked.deps, watch=watch)))
        for token in (key.text, key.text, "not-a-key-at-all"):
            assert (await client.with_token(token).get("/v1/jobs")).status == 401
        assert (await client.get("/v1/jobs")).status == 401
        assert (await client.with_token("static-token-0123456789").get("/v1/jobs")).status == 200
    warned = [line for line in lines if line["event"] == "token.refused"]
    assert [(line["source"], line.get("key_id"), line["held_back"]) for line in warned] == [
        ("127.0.0.1", key.view.key_id, 0),
        ("127.0.0.1", None, 1),
    ]
    requests = [line for line in lines if line["event"] == "http.request"]
    assert [(line["status"], line["source"], line.get("key_id"), line.get("principal")) for line in requests] == [
        (401, "127.0.0.1", key.view.key_id, None),
        (401, "127.0.0.1", key.view.key_id, None),
        (401, "127.0.0.1", None, None),
        (401, "127.0.0.1", None, None),
        (200, "127.0.0.1", None, "token"),
    ]
    secret = key.text.rpartition("_")[2]
    assert secret not in str(lines)
    assert "not-a-key" not in str(lines)
    await locked.close()


async def test_a_flood_of_refused_tokens_is_told_in_few_lines(world: HttpWorld) -> None:
    with capture_logs() as lines:
        refused = RefusedTokens(world.clock)
        for number in range(1_000):
            refused.tell(f"192.0.2.{number % 250}", b"Bearer x")
        assert len(lines) == LINES_PER_MINUTE
        await world.clock.advance(60_000)
        refused.tell("192.0.2.1", b"Bearer x")
    assert lines[-1]["held_back"] == 1_000 - LINES_PER_MINUTE
