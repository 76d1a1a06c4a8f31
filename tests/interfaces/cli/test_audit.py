"""`tickwheel audit`."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import ServerProcess

Call = Callable[..., Result]


def audited(call: Call, *store: str) -> tuple[int, dict[str, Any]]:
    result = call("audit", *store, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_a_running_server_on_sqlite_is_audited_beside_it(call: Call, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with ServerProcess(*data, folder=tmp_path) as server:
        server.client.schedule_many([{"endpoint": f"{server.url}/echo", "delay_seconds": 3_600} for _ in range(3)])
        code, found = audited(call, *data)
        assert code == 0
        assert found["ok"]
        assert found["accepted"] == found["jobs"]["waiting"] == 3
        shown = call("audit", *data).stdout
        assert "jobs accepted" in shown
        assert "unaccounted" in shown
        server.terminate()
        assert server.exit_code() == 0
    (database,) = (path for path in tmp_path.rglob("tickwheel.db") if path.is_file())
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM timers WHERE due_ms = (SELECT min(due_ms) FROM timers)")
    code, found = audited(call, *data)
    assert code == ExitCode.FAILED
    assert found["unaccounted"] == len(found["examples"]) > 0
    assert found["examples"][0].startswith("job_")


def test_postgresql_is_audited_and_the_lost_is_named(call: Call, blank_postgresql: str, tmp_path: Path) -> None:
    store = ("--store", blank_postgresql)
    with ServerProcess(*store, folder=tmp_path, command="serve") as server:
        job = server.client.schedule(endpoint="https://a.example/", delay_seconds=3_600)
        code, found = audited(call, *store)
        assert (code, found["accepted"], found["jobs"]["waiting"]) == (0, 1, 1)
        with psycopg.connect(blank_postgresql) as connection:
            connection.execute("DELETE FROM tickwheel.timers")
        code, found = audited(call, *store)
        assert code == ExitCode.FAILED
        assert found["examples"] == [job.job_id]
        server.process.kill()


def test_without_a_database_there_is_nothing_to_audit(call: Call, tmp_path: Path) -> None:
    result = call("audit", "--data", str(tmp_path / "nothing"))
    assert result.exit_code == ExitCode.USAGE
    assert "there is no database" in result.stderr
    assert call("audit", "--store", "memory:").exit_code == ExitCode.USAGE
