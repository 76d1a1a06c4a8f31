"""`tickwheel explain` and `Client.explain` against a real server."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result

from .server_process import PATIENCE_S, ServerProcess

Call = Callable[..., Result]


def ended(server: ServerProcess, *, handler: str, **fields: object) -> tuple[str, str]:
    """Ids of a job that is over, and of its run."""
    job = server.client.schedule(handler=handler, delay_seconds=timedelta(0), **fields)  # type: ignore[arg-type]
    return job.job_id, server.client.wait_for(job.job_id, timeout_seconds=PATIENCE_S).run_id


def told(call: Call, *arguments: str) -> str:
    result = call("explain", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_run_is_explained_by_its_id_or_its_jobs(call: Call, server: ServerProcess) -> None:
    job_id, run_id = ended(server, handler="work")
    text = told(call, run_id)
    assert text == told(call, job_id)
    headline, _, rest = text.partition("\n\n")
    assert headline.startswith("Ran ")
    assert "The first attempt succeeded." in " ".join(headline.split())
    assert f"run        {run_id}\n" in rest
    steps = [line.split()[4] for line in rest.splitlines() if line.startswith("20") and " +" in line]
    assert steps[-1] == "finished"
    assert "request  handler work (" in rest


def test_a_failure_is_told_with_its_error_and_no_escapes(call: Call, server: ServerProcess) -> None:
    _, run_id = ended(server, handler="evil", retry_policy={"max_retries": 0})
    text = told(call, run_id)
    assert " ".join(text.split()).count("It failed for good after one attempt") == 1
    assert "\x1b" not in text
    assert "failed  " in text


def test_json_is_the_answer_of_the_api(call: Call, server: ServerProcess) -> None:
    _, run_id = ended(server, handler="work")
    answer = json.loads(told(call, run_id, "--json"))
    assert (answer["run_id"], answer["verdict"] in ("on_time", "late")) == (run_id, True)
    assert answer["attempts"][0]["request"]["handler"] == "work"


def test_a_time_of_a_job_is_explained(call: Call, server: ServerProcess) -> None:
    job = server.client.schedule(handler="work", cron_expression="30 2 * * *", timezone="Europe/Berlin")
    text = " ".join(told(call, job.job_id, "--at", "2031-03-30T02:30:00").split())
    assert text.startswith("There is no such time: the clock in Europe/Berlin goes from 02:00:00 to 03:00:00")
    text = told(call, job.job_id, "--at", "2031-03-30T12:00:00Z")
    assert "not_in_schedule" in text
    assert "before it  2031-03-30 01:00:00.000Z\n" in text
    assert "after it   2031-03-31 00:30:00.000Z\n" in text


def test_what_makes_no_sense_is_refused(call: Call, server: ServerProcess) -> None:
    _, run_id = ended(server, handler="work")
    result = call("explain", run_id, "--at", "2031-03-30T12:00:00Z")
    assert result.exit_code == 2
    assert "--at goes with a job; a run has its instant" in result.output
    job = server.client.schedule(handler="work", cron_expression="0 0 1 1 *")
    result = call("explain", job.job_id, "--at", "soon")
    assert result.exit_code != 0
    assert "expected an RFC 3339 instant" in result.output
    result = call("explain", "job_01M8QS2NFT03Q0000D7Z6D8DFJ")
    assert result.exit_code != 0
    assert "there is no job job_01M8QS2NFT03Q0000D7Z6D8DFJ" in result.output


def test_clients_explain_runs_and_times_of_jobs(server: ServerProcess) -> None:
    job_id, run_id = ended(server, handler="work")
    explanation = server.client.explain(run_id)
    assert explanation == server.client.explain(job_id)
    assert [step.step for step in explanation.timeline][-1] == "finished"
    assert explanation.attempts[0].reached_target == "yes"
    then = datetime(2031, 1, 1, tzinfo=UTC)
    elsewhere = server.client.explain(job_id, at=then)
    assert (elsewhere.verdict, elsewhere.scheduled_at) == ("no_run", then)
    with pytest.raises(ValueError, match="a run has its instant"):
        server.client.explain(run_id, at=then)
