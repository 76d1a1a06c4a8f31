"""`tickwheel serve` on PostgreSQL: what it refuses at the start, and what a node without the API serves."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tickwheel.domain.errors import ConfigError
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.flow import Reply
from tickwheel.interfaces.client.transport import Transport
from tickwheel.wiring import shared_store

from .server_process import ServerProcess, run_cli

SECRET = "s3cret-word"


def refused(*arguments: str) -> str:
    """The one line that `serve` says instead of starting."""
    done: subprocess.CompletedProcess[str] = run_cli("serve", "--port", "0", *arguments)
    assert done.returncode in (ExitCode.FAILED, ExitCode.USAGE), done
    (line,) = (line for line in done.stderr.splitlines() if "store.unsafe" not in line)  # no fsync in tests
    assert line.startswith("Error: ")
    assert SECRET not in done.stderr + done.stdout
    return line


def test_an_address_where_no_server_is_is_one_line_without_the_password() -> None:
    line = refused("--store", f"postgresql://app:{SECRET}@127.0.0.1:1/jobs")
    assert "postgresql://app:***@127.0.0.1:1/jobs" in line
    assert "nothing listens there" in line


def test_a_database_of_another_cluster_is_one_line(blank_postgresql: str) -> None:
    with ServerProcess(
        *("--store", blank_postgresql, "--cluster", "blue"), folder=Path.cwd(), command="serve"
    ) as first:
        assert "belongs to the cluster 'blue'" in refused("--store", blank_postgresql, "--cluster", "green")
        first.terminate()
        assert first.exit_code() == 0


def test_what_was_not_migrated_is_one_line_where_a_start_may_not_do_it(
    blank_postgresql: str, tmp_path: Path
) -> None:
    assert "run `tickwheel migrate`" in refused("--store", blank_postgresql, "--no-auto-migrate")
    assert "run `tickwheel migrate`" in refused("--data", str(tmp_path / "data"), "--no-auto-migrate")


def test_roles_that_need_each_other_are_one_line(blank_postgresql: str) -> None:
    assert "add scheduler" in refused("--store", blank_postgresql, "--roles", "worker")


def test_a_coordinator_that_is_none_is_one_line(blank_postgresql: str) -> None:
    line = refused("--store", blank_postgresql, "--coordinator", f"etcd://u:{SECRET}@h:notaport")
    assert "coordinator" in line


def test_a_missing_driver_names_the_extra(call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ConfigError) as caught:
            shared_store.require_driver()
    [problem] = caught.value.problems
    assert problem.field == "store"
    assert problem.message.endswith("pip install 'tickwheel[postgresql]'")


@pytest.mark.slow
def test_a_node_without_the_api_serves_health_and_metrics(blank_postgresql: str, tmp_path: Path) -> None:
    flags = ("--store", blank_postgresql, "--roles", "scheduler,worker")
    with ServerProcess(*flags, folder=tmp_path, command="serve") as node:
        transport = Transport(node.url, token=None, timeout_ms=20_000)

        def get(path: str) -> tuple[int, bytes]:
            reply = transport.send(Call(method="GET", path=path, read=bytes))
            assert isinstance(reply, Reply), reply
            return reply.status, reply.body

        assert get("/healthz")[0] == 200
        assert get("/readyz")[0] == 200
        status, body = get("/v1/jobs")
        assert status == 404
        assert b"no API" in body
        assert b"tickwheel_clock_difference_seconds" in get("/metrics")[1]
        transport.close()
        node.terminate()
        assert node.exit_code() == 0
