"""`tickwheel tail`."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tickwheel import Job, Run
from tickwheel.interfaces.cli.tail import Watch
from tickwheel.interfaces.http.operations import examples

from .server_process import PATIENCE_S, TICKWHEEL, ServerProcess, clean_environment, run_cli

START = datetime(2026, 10, 1, tzinfo=UTC)


def run(number: int, status: str, *, attempt: int = 1, retry_at: datetime | None = None) -> Run:
    body: dict[str, Any] = {
        **examples.RUN,
        "job_id": "job_1",
        "run_id": f"run_{number}",
        "scheduled_at": START + timedelta(seconds=number),
        "status": status,
        "attempt": attempt,
        "retry_at": retry_at,
    }
    return msgspec.convert(body, Run)


def job(last: Run | None) -> Job:
    brief = None if last is None else {n: getattr(last, n) for n in ("run_id", "scheduled_at", "status")}
    return msgspec.convert({**examples.JOB, "job_id": "job_1", "last_run": brief}, Job)


def test_what_had_ended_before_is_not_news() -> None:
    watch = Watch()
    watch.begin([job(run(3, "SUCCEEDED"))])
    assert list(watch.changed([job(run(3, "SUCCEEDED"))])) == []
    assert len(list(watch.changed([job(run(4, "SUCCEEDED"))]))) == 1
    page = [run(1, "FAILED"), run(2, "SUCCEEDED"), run(3, "SUCCEEDED"), run(4, "SUCCEEDED")]
    assert [r.run_id for r in watch.news(page)] == ["run_4"]
    assert list(watch.news(page)) == []


def test_all_runs_of_a_new_job_are_news() -> None:
    watch = Watch()
    watch.begin([])
    assert len(list(watch.changed([job(run(2, "SUCCEEDED"))]))) == 1
    assert [r.run_id for r in watch.news([run(1, "FAILED"), run(2, "SUCCEEDED")])] == ["run_1", "run_2"]


def test_job_with_a_run_going_on_is_looked_at_until_it_has_ended() -> None:
    watch = Watch()
    watch.begin([])
    overlapping = [run(1, "RUNNING"), run(2, "SUCCEEDED")]
    assert len(list(watch.changed([job(overlapping[1])]))) == 1
    assert [r.run_id for r in watch.news(overlapping)] == ["run_2"]
    assert len(list(watch.changed([job(overlapping[1])]))) == 1, "its last run is as before, an older one is open"
    assert [r.run_id for r in watch.news([run(1, "FAILED"), run(2, "SUCCEEDED")])] == ["run_1"]
    assert list(watch.changed([job(overlapping[1])])) == []


def test_failed_attempts_are_news_once_each() -> None:
    watch = Watch()
    watch.begin([])
    first = run(1, "SCHEDULED", attempt=1, retry_at=START)
    assert len(list(watch.news([first]))) == 1
    assert list(watch.news([first])) == []
    assert list(watch.news([run(1, "RUNNING", attempt=2)])) == []
    assert len(list(watch.news([run(1, "SCHEDULED", attempt=2, retry_at=START)]))) == 1
    assert len(list(watch.news([run(1, "FAILED", attempt=3)]))) == 1


@pytest.mark.slow
def test_runs_are_shown_as_they_end(server: ServerProcess) -> None:
    server.client.schedule(handler="work", job_name="before-tail")
    process = subprocess.Popen(
        [*TICKWHEEL, "tail", "--count", "2", "--json", "--url", server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        text=True,
    )
    try:
        job_ids = [
            server.client.schedule(handler="work", delay_seconds=3, tenant_id="default").job_id,
            server.client.schedule(handler="broken", delay_seconds=3.5).job_id,
        ]
        output, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    runs = [json.loads(line) for line in output.splitlines()]
    assert {line["job_id"]: line["status"] for line in runs} == {job_ids[0]: "SUCCEEDED", job_ids[1]: "FAILED"}
    listed = json.loads(run_cli("jobs", "runs", job_ids[0], "--json", url=server.url).stdout)["runs"]
    assert listed[0] in runs, "each line is what the API says, to the letter"


def test_tail_of_no_such_job_ends(server: ServerProcess) -> None:
    done = run_cli("tail", "job_01KB87RMR0003MZHB1C9HP8SB6", url=server.url)
    assert done.returncode == 3
    assert "job_01KB87RMR0003MZHB1C9HP8SB6" in done.stderr
