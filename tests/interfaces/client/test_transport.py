"""Requests as they go over the wire."""

import asyncio
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from tickwheel import (
    AsyncClient,
    Client,
    InvalidRequest,
    NotFound,
    RequestTimedOut,
    ServerUnreachable,
    TickwheelError,
    UnexpectedAnswer,
)
from tickwheel.interfaces.client.transport import check_url
from tickwheel.interfaces.http.operations import examples

from .scripted_server import CUT, HANG, ScriptedServer, answer, problem

CREATED = answer(
    201,
    b'{"job_id":"job_1","tenant_id":"default","status":"SCHEDULED","schedule_type":"INSTANT",'
    b'"next_run_time_epoch_ms":null,"next_run_time_iso":null,"created_at":"2026-10-01T00:00:00.000Z","new":1}',
)
HEALTH = answer(200, b'{"status":"ok","version":"9","tzdata_version":"2026a"}')
TRIGGERED = answer(
    201, b'{"run_id":"run_1","job_id":"job_2","scheduled_at":"2026-10-01T00:00:00Z","status":"SCHEDULED"}'
)


@pytest.fixture
def unused_url() -> Iterator[str]:
    """Bound, but nobody listens: connecting is refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_connection_is_kept_between_requests() -> None:
    with ScriptedServer(HEALTH) as server, Client(server.url) as client:
        for _ in range(5):
            assert client.health().version == "9"
        assert {seen.connection for seen in server.seen} == {0}


def test_each_thread_has_its_own_connection() -> None:
    with ScriptedServer(HEALTH) as server, Client(server.url) as client:
        barrier = threading.Barrier(3)

        def work() -> None:
            barrier.wait(5)
            for _ in range(3):
                client.health()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(server.seen) == 9
        assert {seen.connection for seen in server.seen} == {0, 1, 2}


def test_headers_say_who_asks_and_never_expect() -> None:
    with ScriptedServer(CREATED) as server, Client(server.url, token="the-secret-token") as client:
        client.schedule(handler="x", payload="y" * 10_000)
        (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/jobs")
    assert seen.headers["authorization"] == "Bearer the-secret-token"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("tickwheel-client/")
    assert "expect" not in seen.headers


def test_requests_without_a_body_have_no_type_of_one() -> None:
    with ScriptedServer(answer(200, b"{}")) as server, Client(server.url) as client:
        client.cancel("job_1")
        client.delete("job_1")
    assert [
        (seen.method, seen.headers.get("content-length"), seen.headers.get("content-type")) for seen in server.seen
    ] == [
        ("POST", "0", None),
        ("DELETE", None, None),
    ]


def test_base_path_tenant_and_names_are_quoted_into_the_path() -> None:
    body = json.dumps(examples.JOB).encode()
    with ScriptedServer(answer(200, body)) as server, Client(server.url + "/base/", tenant_id="a b&c") as client:
        client.get("job_1")
        client.put("nightly/report ä", handler="x", cron_expression="@daily")
    assert [seen.path for seen in server.seen] == [
        "/base/v1/jobs/job_1?tenant_id=a+b%26c",
        "/base/v1/jobs/by-name/nightly%2Freport%20%C3%A4?tenant_id=a+b%26c",
    ]


def test_redirects_are_not_followed() -> None:
    with (
        ScriptedServer(HEALTH) as other,
        ScriptedServer(answer(302, b"", more=[f"Location: {other.url}/"])) as server,
        Client(server.url, token="the-secret-token") as client,
    ):
        with pytest.raises(UnexpectedAnswer):
            client.health()
        assert other.seen == []


def test_new_job_is_sent_again_with_the_same_key_when_the_connection_breaks() -> None:
    with ScriptedServer(CUT, CUT, CREATED) as server, Client(server.url) as client:
        assert client.schedule(handler="x").job_id == "job_1"
    keys = [json.loads(seen.body)["idempotency_key"] for seen in server.seen]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_trigger_is_sent_again_with_the_same_key() -> None:
    with ScriptedServer(CUT, TRIGGERED) as server, Client(server.url) as client:
        assert client.trigger("job_1").run_id == "run_1"
        client.trigger("job_1")
    keys = [seen.headers["idempotency-key"] for seen in server.seen]
    assert keys[0] == keys[1] != keys[2]


def test_request_that_must_not_be_repeated_is_sent_once_even_on_a_stale_connection() -> None:
    with ScriptedServer(HEALTH, CUT, HEALTH) as server, Client(server.url) as client:
        client.health()
        with pytest.raises(ServerUnreachable):
            client.redrive(["run_1"])
        assert [seen.path for seen in server.seen] == ["/healthz", "/v1/dlq/redrive"]


def test_nobody_listening_is_told_with_the_address(unused_url: str) -> None:
    with Client(unused_url) as client, pytest.raises(ServerUnreachable, match=unused_url):
        client.health()


def test_silent_server_times_out() -> None:
    with ScriptedServer(HANG) as server, Client(server.url, timeout_seconds=0.3) as client:
        begun = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"0\.3 s"):
            client.redrive_all()
        assert time.monotonic() - begun < 30


def test_problem_becomes_the_error_of_its_code() -> None:
    with (
        ScriptedServer(problem(404, "not_found", detail="there is no job x")) as server,
        Client(server.url) as client,
        pytest.raises(NotFound, match="there is no job x"),
    ):
        client.get("x")


def test_answer_that_is_cut_off_is_no_answer() -> None:
    short = HEALTH[:-5]
    with ScriptedServer(short + b"", HEALTH) as server, Client(server.url, timeout_seconds=0.5) as client:
        assert client.health().version == "9"
        assert len(server.seen) == 2


def test_forked_child_leaves_the_parents_connection_alone() -> None:
    with ScriptedServer(HEALTH) as server, Client(server.url) as client:
        client.health()
        with warnings.catch_warnings():
            # From Python 3.12 on: the server has threads here, and the child does nothing but one request.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                client.health()
                os._exit(0)
            except BaseException:  # the child must not come back into the test runner
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        client.health()
        assert [seen.connection for seen in server.seen] == [0, 1, 0]


async def test_many_coroutines_share_a_few_connections() -> None:
    with ScriptedServer(HEALTH) as server:
        async with AsyncClient(server.url, connections=3) as client:
            found = await asyncio.gather(*(client.health() for _ in range(30)))
        assert len(found) == 30
        assert len({seen.connection for seen in server.seen}) <= 3


async def test_cancelled_call_leaves_the_client_usable() -> None:
    with ScriptedServer(problem(503, "store_unavailable", more=["Retry-After: 5"]), HEALTH) as server:
        async with AsyncClient(server.url) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.health(), 0.5)
            assert (await client.health()).version == "9"


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x/?q=1", "http://x/#f"]
)
def test_address_that_is_none_is_refused_when_the_client_is_made(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|query"):
        Client(url)


def test_slashes_at_the_end_do_not_matter() -> None:
    assert check_url("http://x/base//") == "http://x/base"


def test_wrong_answer_of_a_right_server_is_told() -> None:
    with (
        ScriptedServer(answer(200, b'{"status":5}')) as server,
        Client(server.url) as client,
        pytest.raises(UnexpectedAnswer),
    ):
        client.health()


def test_batch_names_what_was_refused() -> None:
    body = b"""{"results":[{"code":"invalid_request","detail":"d","title":"t","status":422,"type":"x",
        "errors":[{"field":"target","message":"m"}]},%b],"created_count":1,"replayed_count":0,"failed_count":1}"""
    with (
        ScriptedServer(answer(207, body % CREATED.partition(b"\r\n\r\n")[2])) as server,
        Client(server.url) as client,
    ):
        result = client.schedule_many([{"handler": "x"}, {"handler": "y"}])
    ((index, refused),) = result.refused
    assert (index, refused.code, refused.errors[0].field) == (0, "invalid_request", "target")
    assert [job.job_id for job in result.created] == ["job_1"]


def test_errors_are_one_tree() -> None:
    for kind in (ServerUnreachable, RequestTimedOut, InvalidRequest, NotFound, UnexpectedAnswer):
        assert issubclass(kind, TickwheelError)
