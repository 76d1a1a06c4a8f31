"""`tickwheel worker`: what it refuses, how it starts and stops, and real workers of a real server."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tickwheel import Client, HandlerContext, Handlers, Worker
from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.reloading import look, without_reload

from .server_process import ServerProcess, wait_until
from .worker_of_tests import WorkerOfTests

APP = """
import asyncio
import os
from tickwheel import handler

@handler("wait")
async def wait(payload, ctx):
    await asyncio.sleep(payload["seconds"])
    with open(payload["file"], "a") as out:
        out.write(f"{payload['n']} {ctx.attempt} {os.getpid()}\\n")
    return {"n": payload["n"]}

@handler("hold")
async def hold(payload, ctx):
    print(f"holds {payload} attempt {ctx.attempt}", flush=True)
    await asyncio.sleep(120)

@handler("greet")
def greet(payload):
    print("greeting: one")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[ServerProcess]:
    """`tickwheel serve` on SQLite, with no handlers of its own."""
    with ServerProcess("--no-auth", "--data", str(folder / "data"), folder=folder, command="serve") as running:
        yield running


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--app", "app"], "--server: is missing: name where work comes from"),
        (["--server", "http://127.0.0.1:1"], "--app: is missing: name the module with your handlers"),
        (
            ["--server", "http://a", "--store", "postgresql://h/d", "--app", "app"],
            "--store: doesn't go with --server",
        ),
        (
            ["--store", "sqlite:data", "--webhooks"],
            "so take work from that server: --server http://127.0.0.1:8080",
        ),
        (["--server", "localhost:8080", "--webhooks"], "server: 'localhost:8080' is not an address such as"),
        (
            ["--server", "http://a", "--app", "app", "--concurrency", "many"],
            "--concurrency: must be a number from 1",
        ),
        (["--server", "http://a", "--app", "app", "--concurrency", "9..3"], "begins with the least: 3..9"),
        (["--server", "http://a", "--app", "app", "--concurrency", "0"], "--concurrency: must be a number from 1"),
        (["--server", "http://a", "--app", "no_such_module"], "app: no_such_module: can't import"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    call: Callable[..., Result], arguments: list[str], said: str
) -> None:
    result = call("worker", *arguments)
    assert result.exit_code == ExitCode.USAGE, result.output
    assert said in result.stderr


def test_a_store_in_the_environment_is_no_contradiction(call: Callable[..., Result]) -> None:
    result = call("worker", "--server", "http://a", TICKWHEEL_STORE="postgresql://h/d")
    assert "--store" not in result.stderr
    assert "--app: is missing" in result.stderr
    others = {
        "TICKWHEEL_ADVERTISE": "10.0.0.7",
        "TICKWHEEL_CLUSTER": "blue",
        "TICKWHEEL_COORDINATOR": "etcd://h",
        "TICKWHEEL_HISTORY": "old",
        "TICKWHEEL_KEY_CACHE": "redis://h",
        "TICKWHEEL_LEASE_CACHE": "redis://h",
        "TICKWHEEL_PROCESSES": "4",
        "TICKWHEEL_QUEUE": "redis://h",
        "TICKWHEEL_ROLES": "api",
    }
    assert call("worker", "--server", "http://a", **others).stderr == result.stderr
    asked = call("worker", "--server", "http://a", "--webhooks", "--lease-cache", "redis://h")
    assert asked.stderr.startswith("Error: --lease-cache: doesn't go with --server")


def test_a_server_in_the_environment_is_none_when_a_store_is_asked_for(call: Callable[..., Result]) -> None:
    arguments = ("worker", "--store", "sqlite:data", "--webhooks")
    result = call(*arguments, TICKWHEEL_SERVER="http://a http://b")
    assert "go with" not in result.stderr
    assert "a worker apart needs a store that processes share" in result.stderr
    said = call("worker", TICKWHEEL_SERVER="http://a http://b", TICKWHEEL_CONCURRENCY="9..3").stderr
    first, second = said.splitlines()
    assert first == "Error: --concurrency: begins with the least: 3..9, not 9..3"
    assert second.startswith("Error: --app: is missing: name the module with your handlers")


def test_it_says_what_it_serves_and_drains_on_sigterm(served: ServerProcess, folder: Path) -> None:
    with WorkerOfTests("--server", served.url, "--app", "app:app", "--name", "one", folder=folder) as worker:
        assert "Worker one takes work from" in worker.wait_for_line("10 at a time")
        worker.wait_for_line("serving 3 handlers: greet, hold, wait")
        fields: dict[str, Any] = {"n": 1, "seconds": 3.0, "file": str(folder / "out")}
        job = served.client.schedule(handler="wait", payload=fields, schedule_type="INSTANT")
        wait_until(lambda: served.client.get(job.job_id).status == "RUNNING", why="it runs at the worker")
        assert worker.stop() == 0
        worker.wait_for_line("Stopping: 1 run has up to 10 s to end")
        worker.wait_for_line("Stopped.")
        assert served.client.get(job.job_id).status == "SUCCEEDED"


def test_a_wrong_token_ends_it_with_a_code_of_its_own(folder: Path) -> None:
    flags = ("--token", "a-token-of-sixteen", "--data", str(folder / "data"))
    with (
        ServerProcess(*flags, folder=folder, command="serve") as server,
        WorkerOfTests(
            "--server", server.url, "--app", "app", folder=folder, token="another-token-of-it"
        ) as worker,
    ):
        assert worker.process.wait(60) == ExitCode.UNAUTHORIZED
        worker.wait_for_line("Set TICKWHEEL_TOKEN, or give --token")


def test_it_waits_for_a_server_that_is_not_there_yet(served: ServerProcess, folder: Path) -> None:
    servers = ("--server", "http://127.0.0.1:9", "--server", served.url)
    with WorkerOfTests("--server", servers[1], "--app", "app", folder=folder) as waiting:
        waiting.wait_for_line("Waiting for the server: no answer from http://127.0.0.1:9")
        assert waiting.stop() == 0
    with WorkerOfTests(*servers, "--app", "app", folder=folder) as worker:  # of several, another one answers
        worker.wait_for_line("serving 3 handlers")


def test_it_starts_again_when_a_file_changes(served: ServerProcess, folder: Path) -> None:
    with WorkerOfTests("--server", served.url, "--app", "app", "--reload", folder=folder) as worker:
        worker.wait_for_line("serving")
        (folder / "app.py").write_text(APP.replace("greeting: one", "greeting: two, of the new file"))
        worker.wait_for_line("app.py changed: starting again.")
        worker.wait_for_line("serving", count=2)
        served.client.schedule(handler="greet", schedule_type="INSTANT", payload={})
        worker.wait_for_line("greeting: two")
        (folder / "app.py").write_text("this is no Python")
        worker.wait_for_line("it is started again when a file changes")
        (folder / "app.py").write_text(APP)
        worker.wait_for_line("serving", count=3)
        assert worker.stop() == 0


def test_asked_again_a_reloading_worker_ends_at_once(served: ServerProcess, folder: Path) -> None:
    flags = ("--app", "app", "--reload", "--grace-seconds", "60")
    with WorkerOfTests("--server", served.url, *flags, folder=folder) as worker:
        worker.wait_for_line("serving")
        served.client.schedule(handler="hold", schedule_type="INSTANT", payload=1)
        worker.wait_for_line("holds 1")
        worker.process.send_signal(signal.SIGINT)
        worker.wait_for_line("again to quit at once")
        worker.process.send_signal(signal.SIGINT)
        assert worker.exit_code(within_s=20) != 0


def test_only_python_files_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").touch()
    (tmp_path / "b.txt").touch()
    for hidden in (".venv", "__pycache__"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "c.py").touch()
    assert set(look(tmp_path)) == {str(tmp_path / "package" / "a.py")}
    assert without_reload(["worker", "--reload", "--app", "a"]) == ["worker", "--app", "a"]


@pytest.mark.slow
def test_one_of_two_workers_is_killed_and_everything_ends(served: ServerProcess, folder: Path) -> None:
    out = folder / "out"
    arguments = ("--server", served.url, "--app", "app", "--concurrency", "20")
    with (
        WorkerOfTests(*arguments, "--name", "one", folder=folder) as one,
        WorkerOfTests(*arguments, "--name", "two", folder=folder) as two,
    ):
        one.wait_for_line("serving")
        two.wait_for_line("serving")
        jobs = [
            {
                "handler": "wait",
                "schedule_type": "INSTANT",
                "payload": {"n": n, "seconds": 0.5, "file": str(out)},
            }
            for n in range(200)
        ]
        assert all(job.job_id for job in served.client.schedule_many(jobs).results)  # type: ignore[arg-type, union-attr]
        pids = [str(worker.process.pid) for worker in (one, two)]
        wait_until(lambda: all(by_pid(out)[pid] >= 15 for pid in pids), why="both are at work")
        one.kill()
        wait_until(lambda: len({line[0] for line in lines(out)}) == 200, why="all have run")
        wait_until(lambda: ended(served.client) == {"SUCCEEDED": 200}, why="all have ended well")
    attempts = Counter(line[1] for line in lines(out))
    assert set(attempts) == {"1", "2"}, "what the killed one held has run again"


@pytest.mark.slow
def test_what_a_killed_worker_held_starts_elsewhere_long_before_its_lease_is_over(
    served: ServerProcess, folder: Path
) -> None:
    arguments = ("--server", served.url, "--app", "app")
    with WorkerOfTests(*arguments, folder=folder) as one:
        one.wait_for_line("serving")
        for n in range(5):
            served.client.schedule(handler="hold", schedule_type="INSTANT", payload=n)
        one.wait_for_line("attempt 1", count=5)
        with WorkerOfTests(*arguments, folder=folder) as two:
            two.wait_for_line("serving")
            one.kill()
            killed_s = time.monotonic()
            two.wait_for_line("attempt 2", count=5)
            # Two seconds on a quiet machine. Silence would take 15, the lease 30.
            assert time.monotonic() - killed_s < 10
            two.kill()


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def by_pid(path: Path) -> Counter[str]:
    return Counter(line[2] for line in lines(path))


def ended(client: Client) -> Counter[str]:
    found: Counter[str] = Counter()
    page = client.list(limit=200)
    found.update(str(job.status) for job in page.jobs)
    return found


async def test_a_program_of_ones_own_is_a_worker(served: ServerProcess) -> None:
    handlers, seen = Handlers(), list[str]()

    @handlers.handler("here")
    async def here(payload: Any, ctx: HandlerContext) -> dict[str, int]:
        seen.append(ctx.run_id)
        return {"pid": os.getpid()}

    async with Worker(server=served.url, handlers=handlers, concurrency=(2, 8), name="mine") as worker:
        job = await asyncio.to_thread(served.client.schedule, handler="here", schedule_type="INSTANT")
        until = time.monotonic() + 30
        while (await asyncio.to_thread(served.client.get, job.job_id)).status != "SUCCEEDED":
            assert time.monotonic() < until
            await asyncio.sleep(0.1)
        assert worker.busy == 0
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, ["server"]),
        ({"server": "http://a", "store": "postgresql://b"}, ["store"]),
        ({"server": "http://a", "app": "app", "handlers": Handlers()}, ["handlers"]),
        ({"server": "http://a", "concurrency": 0}, ["concurrency"]),
        ({"concurrency": (8, 2)}, ["server", "concurrency"]),
        ({"store": "x", "prefetch": -1, "grace_seconds": float("nan")}, ["prefetch", "grace_seconds"]),
    ],
)
def test_all_that_is_wrong_with_the_arguments_is_told(arguments: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        Worker(**arguments)
    assert [problem.field for problem in raised.value.problems] == fields
