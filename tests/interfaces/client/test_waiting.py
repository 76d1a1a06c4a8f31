"""`wait_for`, step by step, without a clock."""

from typing import Any

import msgspec
import pytest

from tickwheel import NotFound, Run, WaitTimedOut
from tickwheel.interfaces.client.flow import Flow, Outcome, Pause, Reply, Send
from tickwheel.interfaces.client.waiting import wait_for
from tickwheel.interfaces.http.operations import examples

JOB_ID, RUN_ID = examples.JOB_ID, examples.RUN_ID
TOOK_MS = 10


def brief(run_id: str, status: str) -> dict[str, Any]:
    return {"run_id": run_id, "scheduled_at": "2026-10-01T00:00:00Z", "status": status}


def job(last: dict[str, Any] | None, *, status: str = "SCHEDULED", kind: str = "DELAYED") -> dict[str, Any]:
    return {**examples.JOB, "status": status, "schedule_type": kind, "last_run": last}


def run(status: str, run_id: str = RUN_ID) -> dict[str, Any]:
    return {**examples.RUN, "run_id": run_id, "status": status}


class Steps:
    """Does what a flow says: answers with these bodies, the last one again and again."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self._bodies = bodies
        self.paths: list[str] = []
        self.took_ms = 0

    def drive(self, flow: Flow[Run]) -> Run:
        given: Outcome = None
        while True:
            try:
                step = flow.send(given)
            except StopIteration as done:
                found: Run = done.value
                return found
            if isinstance(step, Send):
                given = self._answer(step)
            else:
                given = None
                self._pause(step)

    def _answer(self, step: Send) -> Reply:
        body = self._bodies[min(len(self.paths), len(self._bodies) - 1)]
        self.paths.append(step.call.path)
        self.took_ms += TOOK_MS
        return Reply(200, "application/json", "", False, msgspec.json.encode(body), TOOK_MS, "x")

    def _pause(self, step: Pause) -> None:
        assert step.length_ms > 0
        self.took_ms += step.length_ms


def wait(what: str, *bodies: dict[str, Any]) -> tuple[Run, list[str]]:
    """(the run, the paths that were asked for)."""
    steps = Steps(*bodies)
    return steps.drive(wait_for(what, "acme", 1_000_000)), steps.paths


def test_run_is_asked_for_until_it_has_ended() -> None:
    result, paths = wait(RUN_ID, run("RUNNING"), run("SCHEDULED"), run("FAILED"))
    assert (result.status, result.ended, result.succeeded) == ("FAILED", True, False)
    assert paths == [f"/v1/runs/{RUN_ID}?tenant_id=acme"] * 3


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"])
def test_one_off_gives_its_run_however_it_ended(status: str) -> None:
    result, paths = wait(JOB_ID, job(None), job(brief(RUN_ID, status), status=status), run(status))
    assert result.status == status
    assert paths[-1] == f"/v1/runs/{RUN_ID}?tenant_id=acme"


def test_one_off_that_has_ended_before_is_answered_at_once() -> None:
    _, paths = wait(JOB_ID, job(brief(RUN_ID, "SUCCEEDED"), status="SUCCEEDED"), run("SUCCEEDED"))
    assert len(paths) == 2


def test_recurring_job_waits_for_a_run_that_ends_from_now_on() -> None:
    old, new = brief("run_old", "SUCCEEDED"), "run_new"
    result, _ = wait(
        JOB_ID,
        job(old, kind="CRON"),
        job(old, kind="CRON"),
        job(brief(new, "RUNNING"), kind="CRON"),
        job(brief(new, "SUCCEEDED"), kind="CRON"),
        run("SUCCEEDED", new),
    )
    assert result.run_id == new


def test_recurring_job_whose_run_goes_on_waits_for_that_one() -> None:
    result, _ = wait(
        JOB_ID,
        job(brief(RUN_ID, "RUNNING"), kind="CRON"),
        job(brief(RUN_ID, "SUCCEEDED"), kind="CRON"),
        run("SUCCEEDED"),
    )
    assert result.run_id == RUN_ID


def test_job_that_ends_without_a_run_is_no_endless_wait() -> None:
    with pytest.raises(NotFound, match="CANCELLED"):
        wait(JOB_ID, job(None), job(None, status="CANCELLED"))


@pytest.mark.parametrize("timeout_ms", [0, 1, 700, 5_000])
def test_wait_ends_in_time(timeout_ms: int) -> None:
    steps = Steps(run("RUNNING"))
    with pytest.raises(WaitTimedOut, match="goes on"):
        steps.drive(wait_for(RUN_ID, None, timeout_ms))
    assert timeout_ms <= steps.took_ms <= timeout_ms + TOOK_MS + 1
