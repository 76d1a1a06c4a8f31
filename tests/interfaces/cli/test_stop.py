"""Stopping: soon after the grace time, whatever handlers do, and nothing is lost by it.

Handlers that hold on do so for two minutes: an end within `ENDS_WITHIN_S` shows that nobody waited for them.
"""

import signal
from pathlib import Path
from typing import Any

import pytest

from tickwheel import JobFields, Run
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.flow import Reply
from tickwheel.interfaces.client.transport import Transport

from .server_process import ServerProcess, wait_until

GRACE_S = 2
ENDS_WITHIN_S = GRACE_S + 20  # the 20 s are for a busy machine
APP = ("--app", "handlers_of_tests", "--grace-seconds", str(GRACE_S))


def create(server: ServerProcess, handler: str, **fields: Any) -> str:
    return server.client.schedule(handler=handler, **fields).job_id


def started(server: ServerProcess, job_id: str) -> Run:
    def begun() -> Run | None:
        last = server.client.get(job_id).last_run
        run = server.client.get_run(last.run_id) if last else None
        return run if run and run.attempt and run.status in ("DISPATCHED", "RUNNING") else None

    run: Run = wait_until(begun, why="the handler has begun")
    return run


@pytest.mark.slow
@pytest.mark.pitfall(79)
@pytest.mark.parametrize("handler", ["deaf", "stuck_thread"])
def test_handler_that_ignores_cancel_holds_nothing_up_and_goes_back(
    handler: str, tmp_path: Path, handlers_folder: Path
) -> None:
    data = ("--data", str(tmp_path / "data"))
    with ServerProcess(*APP, *data, folder=handlers_folder) as server:
        job_id = create(server, handler)
        first = started(server, job_id)
        server.terminate()
        assert server.exit_code(within_s=ENDS_WITHIN_S) == 0
    with ServerProcess(*APP, *data, folder=handlers_folder) as again:
        second = started(again, job_id)
        assert (second.run_id, second.attempt) == (first.run_id, 1), "being handed back uses no attempt up"
        assert second.fencing_token is not None
        assert first.fencing_token is not None
        assert second.fencing_token > first.fencing_token
        again.process.kill()


@pytest.mark.slow
@pytest.mark.pitfall(79)
def test_handler_that_blocks_the_event_loop_is_left_behind(tmp_path: Path, handlers_folder: Path) -> None:
    with ServerProcess(*APP, "--data", str(tmp_path / "data"), folder=handlers_folder) as server:
        create(server, "blocking", delay_seconds=1)
        server.wait_for_line("blocking has begun")
        server.terminate()
        assert server.exit_code(within_s=ENDS_WITHIN_S) == 1
        server.wait_for_line("Ended hard")


@pytest.mark.slow
def test_second_signal_ends_at_once(handlers_folder: Path) -> None:
    with ServerProcess(
        "--app", "handlers_of_tests", "--grace-seconds", "60", "--store", "memory:", folder=handlers_folder
    ) as server:
        job_id = create(server, "nap", payload=120)
        started(server, job_id)
        server.terminate()
        server.wait_for_line("Stopping: 1 run has up to 60 s")
        server.process.send_signal(signal.SIGINT)
        assert server.exit_code(within_s=ENDS_WITHIN_S) == 128 + signal.SIGINT


@pytest.mark.slow
@pytest.mark.pitfall(80)
def test_run_can_be_cancelled_while_draining(tmp_path: Path, handlers_folder: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with ServerProcess(
        "--app", "handlers_of_tests", "--grace-seconds", "60", *data, folder=handlers_folder
    ) as server:
        job_id = create(server, "nap", payload=120)
        started(server, job_id)
        server.terminate()
        server.wait_for_line("Stopping: 1 run")
        assert server.client.get(job_id).status in ("DISPATCHED", "RUNNING"), "the API answers while draining"
        server.client.cancel(job_id)
        assert server.exit_code() == 0, "nothing runs any more, so the grace time is not waited for"
    with ServerProcess(*APP, *data, folder=handlers_folder) as again:
        assert again.client.get(job_id).status == "CANCELLED"
        assert [run.status for run in again.client.list_runs(job_id).runs] == ["CANCELLED"]
        again.process.kill()


@pytest.mark.slow
def test_readiness_turns_false_while_draining_and_health_stays(handlers_folder: Path) -> None:
    with ServerProcess(
        "--app", "handlers_of_tests", "--grace-seconds", "60", "--store", "memory:", folder=handlers_folder
    ) as server:
        transport = Transport(server.url, token=None, timeout_ms=20_000)

        def get(path: str) -> int:
            reply = transport.send(Call(method="GET", path=path, read=bytes))
            assert isinstance(reply, Reply), reply
            return reply.status

        assert get("/readyz") == 200
        started(server, create(server, "nap", payload=120))
        server.terminate()
        server.wait_for_line("Stopping: 1 run")
        assert get("/readyz") == 503
        assert get("/healthz") == 200
        transport.close()
        server.process.kill()


@pytest.mark.slow
def test_short_work_ends_in_the_grace_time(handlers_folder: Path) -> None:
    with ServerProcess(
        "--app", "handlers_of_tests", "--grace-seconds", "60", "--store", "memory:", folder=handlers_folder
    ) as server:
        started(server, create(server, "nap", payload=2))
        server.terminate()
        server.wait_for_line("SUCCEEDED")
        assert server.exit_code() == 0


@pytest.mark.slow
@pytest.mark.pitfall(29)
def test_jobs_due_after_a_stop_run_after_the_next_start(tmp_path: Path, handlers_folder: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    jobs: list[JobFields] = [{"handler": "work", "delay_seconds": 1 + number * 0.03} for number in range(100)]
    with ServerProcess(*APP, *data, folder=handlers_folder) as server:
        assert len(server.client.schedule_many(jobs).created) == 100
        wait_until(lambda: server.client.list(status="SUCCEEDED").jobs, why="the first have run")
        server.terminate()
        assert server.exit_code() == 0
    with ServerProcess(*APP, *data, folder=handlers_folder) as again:

        def all_done() -> bool:
            page = again.client.list(limit=200)
            assert len(page.jobs) == 100
            return all(job.status == "SUCCEEDED" for job in page.jobs)

        wait_until(all_done, why="100 jobs have run")
        again.process.kill()
