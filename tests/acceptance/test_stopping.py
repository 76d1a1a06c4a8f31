"""SIGTERM with webhooks that never answer, and whatever is asked while the server drains."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .crash.api import Api

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def node(folder: Path, grace_s: int) -> ServerProcess:
    return ServerProcess("--data", str(folder / "data"), "--grace-seconds", str(grace_s), folder=folder)


def api_of(server: ServerProcess) -> Api:
    port = urlsplit(server.url).port
    assert port is not None
    return Api(port)


def start_webhook(api: Api, endpoint: str) -> str:
    body = {"schedule_type": "INSTANT", "target": {"endpoint": endpoint, "timeout_seconds": 600}}
    job_id: str = api.call("POST", "/v1/jobs", body)[1]["job_id"]
    wait_until_running(api, job_id)
    return job_id


def wait_until_running(api: Api, job_id: str) -> None:
    wait_until(lambda: job(api, job_id)["status"] == "RUNNING", within_s=10, why="the request is under way")


def job(api: Api, job_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = api.call("GET", f"/v1/jobs/{job_id}")[1]
    return answer


@pytest.mark.pitfall(79)
def test_target_that_never_answers_does_not_hold_the_stop_up_and_is_called_again(
    tmp_path: Path, silent: str
) -> None:
    with node(tmp_path, grace_s=1) as server, api_of(server) as api:
        ids = [start_webhook(api, silent) for _ in range(3)]
        tokens = [job(api, job_id)["fencing_token"] for job_id in ids]
        server.terminate()
        assert server.exit_code(within_s=20) == 0, "the webhooks' own timeout of 600 s is not waited for"
    with node(tmp_path, grace_s=1) as again, api_of(again) as api:
        for job_id, token in zip(ids, tokens, strict=True):
            wait_until_running(api, job_id)
            shown = job(api, job_id)
            assert shown["fencing_token"] > token
            run = api.call("GET", f"/v1/runs/{shown['last_run']['run_id']}")[1]
            assert [attempt["outcome"] for attempt in run["attempts"]] == ["unstarted", "running"], run
        again.process.kill()


@pytest.mark.pitfall(80)
@pytest.mark.parametrize("how", ["cancel", "delete", "run"])
def test_cancel_in_any_form_ends_the_run_while_the_server_drains(tmp_path: Path, silent: str, how: str) -> None:
    with node(tmp_path, grace_s=30) as server, api_of(server) as api:
        job_id = start_webhook(api, silent)
        run_id = job(api, job_id)["last_run"]["run_id"]
        waiting = api.call(
            "POST", "/v1/jobs", {"schedule_type": "DELAYED", "delay_seconds": 60, "target": {"endpoint": silent}}
        )[1]["job_id"]
        server.terminate()
        server.wait_for_line("Stopping: 1 run")
        method, path = {
            "cancel": ("POST", f"/v1/jobs/{job_id}/cancel"),
            "delete": ("DELETE", f"/v1/jobs/{job_id}"),
            "run": ("POST", f"/v1/runs/{run_id}/cancel"),
        }[how]
        assert api.call("POST", f"/v1/jobs/{waiting}/cancel")[0] == 200
        assert api.call(method, path)[0] in (200, 204)
        assert server.exit_code(within_s=20) == 0, (
            "nothing runs any more, so the rest of the grace time is not waited for"
        )
    with node(tmp_path, grace_s=1) as again, api_of(again) as api:
        assert job(api, waiting)["status"] == "CANCELLED"
        assert api.call("GET", f"/v1/runs/{run_id}")[1].get("status", "CANCELLED") == "CANCELLED"
        later = start_webhook(api, silent)  # once this runs, whatever was due before would be running too
        running = api.call("GET", "/v1/jobs?status=RUNNING")[1]["jobs"]
        assert [shown["job_id"] for shown in running] == [later]
        again.process.kill()
