"""`tickwheel doctor` on a PostgreSQL store."""

import json
import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from click.testing import Result
from msgspec.structs import replace

from tickwheel.adapters.postgresql.partitions import make_window
from tickwheel.interfaces.cli import checks_postgresql
from tickwheel.wiring import inspect_shared_store

from ...servers.postgresql import (
    PostgresServer,
)
from ...servers.waiting import wait_until

Call = Callable[..., Result]


def looked_at(call: Call, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = call("doctor", "--json", "--port", "0", *arguments)
    return result.exit_code, {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_new_database_is_fine(call: Call, blank_postgresql: str) -> None:
    code, found = looked_at(call, "--store", blank_postgresql)
    assert code == 0
    assert "migrations to do" in found["store"]["text"]
    assert found["partitions"]["text"] == "none yet; nodes make them"
    assert "data folder" not in found
    with psycopg.connect(blank_postgresql) as connection:
        assert connection.execute("SELECT to_regnamespace('tickwheel')").fetchone() == (None,)


def test_a_database_in_use_is_described(call: Call, blank_postgresql: str) -> None:
    assert call("migrate", "--store", blank_postgresql).exit_code == 0
    now_ms = inspect_shared_store(blank_postgresql).server_ms
    with psycopg.connect(blank_postgresql, autocommit=True) as connection:
        make_window(connection, now_ms, now_ms + 5 * 86_400_000, now_ms)
    code, found = looked_at(call, "--store", blank_postgresql)
    assert code == 0
    assert "PostgreSQL 1" in found["store"]["text"]
    assert "schema up to date, 256 shards, nodes beating in it: 0" in found["store"]["text"]
    assert found["durability"]["level"] == "warn", "the servers of the tests run without fsync"
    assert "none: the loss of the server's disk" in found["replicas"]["text"]
    assert found["partitions"]["level"] == "ok"
    assert "days ahead" in found["partitions"]["text"]
    assert found["database clock"]["level"] == "ok"
    assert "durable commit" in found["latency"]["text"]
    assert found["connections"]["level"] == "ok"


def test_partitions_that_are_not_made_ahead_are_told(call: Call, blank_postgresql: str) -> None:
    call("migrate", "--store", blank_postgresql)
    now_ms = inspect_shared_store(blank_postgresql).server_ms
    with psycopg.connect(blank_postgresql, autocommit=True) as connection:
        make_window(connection, now_ms, now_ms + 1, now_ms)
    _, found = looked_at(call, "--store", blank_postgresql)
    assert found["partitions"]["level"] == "warn"
    assert "leads" in found["partitions"]["remedy"]


def test_a_database_of_another_cluster_fails(call: Call, blank_postgresql: str) -> None:
    call("migrate", "--store", blank_postgresql)
    with psycopg.connect(blank_postgresql) as connection:
        connection.execute("UPDATE tickwheel.meta SET cluster = 'blue'")
    code, found = looked_at(call, "--store", blank_postgresql, "--cluster", "green")
    assert code == 1
    assert "--cluster blue" in found["store"]["remedy"]


def test_a_server_that_is_away_fails_without_showing_the_password(call: Call) -> None:
    code, found = looked_at(call, "--store", "postgresql://app:s3cret-word@127.0.0.1:1/x")
    assert code == 1
    assert "nothing listens there" in found["store"]["text"]
    assert "s3cret-word" not in str(found)


def sync_states(primary: PostgresServer) -> list[str]:
    """As the primary sees its standbys."""
    return [state for (state,) in primary.execute("SELECT sync_state FROM pg_stat_replication")]


def test_replicas_are_named_and_a_standby_itself_fails(call: Call) -> None:
    with PostgresServer() as primary:
        standby = primary.add_standby("second")
        try:
            wait_until(lambda: sync_states(primary) == ["sync"], 30, "the standby is synchronous")
            _, found = looked_at(call, "--store", primary.url())
            assert found["replicas"] == {"name": "replicas", "level": "ok", "text": "second (sync)", "remedy": ""}
            code, found = looked_at(call, "--store", standby.url())
        finally:
            standby.close()
    assert code == 1
    assert "a standby" in found["store"]["text"]


def test_a_clock_that_is_off_is_told(call: Call, blank_postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong_ms, level in ((600, "warn"), (-600, "warn"), (6_000, "fail")):
        off = replace(inspect_shared_store(blank_postgresql), clock_difference_ms=wrong_ms)
        monkeypatch.setattr(checks_postgresql, "inspect_shared_store", lambda url, off=off: off)
        _, found = looked_at(call, "--store", blank_postgresql)
        assert found["database clock"]["level"] == level
        assert "chrony" in found["database clock"]["remedy"]


def test_what_several_processes_need_is_looked_at(call: Call, blank_postgresql: str) -> None:
    code, found = looked_at(call, "--store", blank_postgresql, "--processes", "64")
    assert code == 0
    assert found["processes"]["level"] == found["connections"]["level"] == "warn"
    assert "64 of them on" in found["processes"]["text"]
    assert "64 processes take about 832" in found["connections"]["text"]
    assert "or lower --processes" in found["connections"]["remedy"]


def test_a_taken_port_of_one_of_several_processes_is_told(call: Call, blank_postgresql: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, found = looked_at(call, "--store", blank_postgresql, "--processes", "2", "--port", f"{port - 2}")
    assert code == 1
    assert found["port"]["text"] == f"127.0.0.1:{port} is taken by another program"
