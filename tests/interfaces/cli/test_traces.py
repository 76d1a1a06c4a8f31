"""One trace from the request over claim and attempt to the target: real servers, real receivers."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ...servers.otlp_sink import OtlpSink, attributes, otlp_sink
from .server_process import ServerProcess, with_handlers
from .worker_of_tests import WorkerOfTests

pytestmark = pytest.mark.slow
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"

APP = """
import json
from tickwheel import handler

@handler("note")
async def note(payload, ctx):
    with open(payload, "a") as out:
        out.write(f"{ctx.traceparent} {ctx.tracestate}\\n")
"""


@pytest.fixture
def sink() -> Iterator[OtlpSink]:
    with otlp_sink() as listening:
        yield listening


def server(folder: Path, *flags: str) -> ServerProcess:
    where = ("--no-auth", "--allow-loopback", "--data", str(folder / "data"))
    return ServerProcess(*where, *flags, folder=folder, command="serve")


def webhook(sink: OtlpSink, **more: Any) -> dict[str, Any]:
    return {"target": {"type": "HTTP_WEBHOOK", "endpoint": f"{sink.url}/hook?key=secret"}, **more}


def send(running: ServerProcess, body: Any, path: str = "/v1/jobs", method: str = "POST", **headers: str) -> Any:
    return running.request(method, path, body, headers)


def test_request_claim_attempt_and_webhook_are_one_trace(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path, "--otlp-endpoint", sink.url) as running:
        job = {"schedule_type": "INSTANT", "payload": {"a": "hidden"}, **webhook(sink)}
        created = send(running, job, traceparent=TRACEPARENT, tracestate="vendor=1")
        (called,) = sink.wait_for_calls(1)
        spans = {span["name"]: span for span in sink.wait_for(4)}
    request, claim = spans["POST /v1/jobs"], spans["tickwheel.claim"]
    attempt, call = spans["tickwheel.attempt"], spans["POST 127.0.0.1"]
    assert {span["traceId"] for span in spans.values()} == {TRACE}
    assert [request["parentSpanId"], claim["parentSpanId"]] == [PARENT, request["spanId"]]
    assert [attempt["parentSpanId"], call["parentSpanId"]] == [claim["spanId"], attempt["spanId"]]
    assert called["traceparent"] == f"00-{TRACE}-{call['spanId']}-01"
    assert called["tracestate"] == "vendor=1"
    about = attributes(attempt)
    assert about["tickwheel.job_id"] == created["job_id"] == attributes(request)["tickwheel.job_id"]
    assert about["tickwheel.outcome"] == "success"
    assert about["tickwheel.attempt"] == "1"
    assert attributes(call)["http.response.status_code"] == "200"
    assert "secret" not in json.dumps(sink.spans)
    assert "hidden" not in json.dumps(sink.spans)
    assert sink.resources[0]["service.name"] == "tickwheel"


def test_what_is_not_sampled_is_passed_on_and_not_exported(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path, "--otlp-endpoint", sink.url) as running:
        send(running, {"schedule_type": "INSTANT", **webhook(sink)}, traceparent=UNSAMPLED)
        (called,) = sink.wait_for_calls(1)
    assert called["traceparent"] == UNSAMPLED
    assert sink.spans == []


def test_without_a_collector_the_trace_of_the_caller_reaches_the_target(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path) as running:
        send(running, {"schedule_type": "INSTANT", **webhook(sink)}, traceparent=TRACEPARENT)
        send(running, {"schedule_type": "INSTANT", **webhook(sink)})
        called = sink.wait_for_calls(2)
    assert sorted(call.get("traceparent", "none") for call in called) == [TRACEPARENT, "none"]


@pytest.mark.parametrize(
    "hostile", ["", "00-0-0-01", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 8_000, "\u00e9"]
)
def test_a_hostile_traceparent_is_ignored(tmp_path: Path, sink: OtlpSink, hostile: str) -> None:
    with server(tmp_path, "--otlp-endpoint", sink.url) as running:
        send(running, {"schedule_type": "INSTANT", **webhook(sink)}, traceparent=hostile, tracestate="=,=")
        (called,) = sink.wait_for_calls(1)
    assert "traceparent" not in called
    assert sink.spans == []


def test_all_are_sampled_where_the_share_is_one(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path, "--otlp-endpoint", sink.url, "--trace-sample", "100%") as running:
        job = {"schedule_type": "INSTANT", **webhook(sink)}
        send(running, job)
        send(running, [job, job], path="/v1/jobs/batch")
        send(
            running, webhook(sink, cron_expression="0 0 1 1 *", schedule_type="CRON"), "/v1/jobs/by-name/n", "PUT"
        )
        spans = sink.wait_for(1 + 3 + 1 + 6 + 1)
    assert {span["name"] for span in spans} >= {
        "POST /v1/jobs",
        "POST /v1/jobs/batch",
        "PUT /v1/jobs/by-name/{name}",
    }
    assert len({span["traceId"] for span in spans}) == 3
    assert len(sink.named("tickwheel.attempt")) == 3


def test_each_run_of_a_recurring_job_is_a_trace_with_a_link(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path, "--otlp-endpoint", sink.url) as running:
        cron = webhook(sink, schedule_type="CRON", cron_expression="* * * * * *")
        send(running, cron, traceparent=TRACEPARENT)
        first, second = sink.wait_for_calls(2)[:2]
        sink.wait_for(7)
    assert len({TRACE, first["traceparent"].split("-")[1], second["traceparent"].split("-")[1]}) == 3
    (request,) = sink.named("POST /v1/jobs")
    claim = sink.named("tickwheel.claim")[0]
    assert "parentSpanId" not in claim
    assert claim["links"] == [{"traceId": TRACE, "spanId": request["spanId"]}]


def test_a_failed_attempt_says_so_and_the_next_one_is_in_the_same_trace(tmp_path: Path, sink: OtlpSink) -> None:
    folder = with_handlers(tmp_path)
    with server(folder, "--otlp-endpoint", sink.url, "--app", "handlers_of_tests") as running:
        target = {"type": "HANDLER", "name": "broken"}
        send(running, {"schedule_type": "INSTANT", "target": target}, traceparent=TRACEPARENT)
        sink.wait_for(3)
    (attempt,) = sink.named("tickwheel.attempt")
    assert attempt["status"] == {"code": 2, "message": "permanent"}
    assert "it is broken" not in json.dumps(sink.spans)


def test_an_attempt_that_dies_with_its_server_is_told_by_the_next_one(tmp_path: Path, sink: OtlpSink) -> None:
    folder = with_handlers(tmp_path)
    flags = ("--otlp-endpoint", sink.url, "--app", "handlers_of_tests")
    with server(folder, *flags) as running:
        job = {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "nap"}, "payload": 120}
        send(running, job, traceparent=TRACEPARENT)
        (claim,) = [span for span in sink.wait_for(2) if span["name"] == "tickwheel.claim"]
        running.process.kill()
    with server(folder, *flags):
        sink.wait_for(3)
    lost = sink.named("tickwheel.attempt")[0]
    assert (lost["traceId"], lost["parentSpanId"]) == (TRACE, claim["spanId"])
    assert lost["status"] == {"code": 2, "message": "lost"}
    assert attributes(lost)["tickwheel.outcome"] == "lost"
    assert int(lost["startTimeUnixNano"]) < int(lost["endTimeUnixNano"])


def test_a_worker_over_http_carries_the_trace_on(tmp_path: Path, sink: OtlpSink) -> None:
    (tmp_path / "app.py").write_text(APP)
    out = tmp_path / "out"
    with server(tmp_path, "--otlp-endpoint", sink.url) as running:
        target = {"type": "HANDLER", "name": "note"}
        with WorkerOfTests("--server", running.url, "--app", "app", folder=tmp_path):
            job = {"schedule_type": "INSTANT", "target": target, "payload": str(out)}
            send(running, job, traceparent=TRACEPARENT, tracestate="vendor=1")
            sink.wait_for(3)
    (request,), (claim,) = sink.named("POST /v1/jobs"), sink.named("tickwheel.claim")
    (attempt,) = sink.named("tickwheel.attempt")
    assert claim["parentSpanId"] == request["spanId"]
    assert attempt["parentSpanId"] == claim["spanId"]
    assert out.read_text() == f"00-{TRACE}-{attempt['spanId']}-01 vendor=1\n"


def test_work_goes_on_while_the_collector_is_away(tmp_path: Path, sink: OtlpSink) -> None:
    with server(tmp_path, "--otlp-endpoint", "http://127.0.0.1:1", "--trace-sample", "1") as running:
        send(running, [{"schedule_type": "INSTANT", **webhook(sink)}] * 50, path="/v1/jobs/batch")
        assert len(sink.wait_for_calls(50)) == 50
        began_s = time.monotonic()
        running.terminate()
        assert running.exit_code() == 0
        assert time.monotonic() - began_s < 30


def test_every_line_of_a_run_is_json_with_the_same_members(tmp_path: Path, sink: OtlpSink) -> None:
    logs = ("--log-format", "json", "--log-level", "debug", "--access-log")
    folder = with_handlers(tmp_path)
    with server(folder, *logs, "--app", "handlers_of_tests") as running:
        job = {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "broken"}}
        created = send(running, job, traceparent=TRACEPARENT, **{"X-Request-Id": "order-7"})
        running.wait_for_line("attempt.failed")
        running.terminate()
        running.exit_code()
        lines = [json.loads(line) for line in running.lines if line.startswith("{")]
    assert all({"event", "level", "timestamp", "node"} <= line.keys() for line in lines)
    (request,) = [line for line in lines if line["event"] == "http.request" and line["method"] == "POST"]
    assert request["request_id"] == "order-7"
    assert request["trace_id"] == TRACE
    assert request["job_id"] == created["job_id"]
    assert (request["route"], request["status"]) == ("/v1/jobs", 201)
    (failed,) = [line for line in lines if line["event"] == "attempt.failed"]
    assert failed["run_id"].startswith("run_")
    assert (failed["job_id"], failed["tenant_id"]) == (created["job_id"], "default")
    assert failed["trace_id"] == TRACE
