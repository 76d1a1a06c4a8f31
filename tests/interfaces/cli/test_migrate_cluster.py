"""`tickwheel migrate` on PostgreSQL, and `--after-restore` on every store."""

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from click.testing import Result

from tickwheel.adapters.postgresql.migrate import known_migrations
from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import json_of, run_cli

LABELS = [step.label for step in known_migrations()]


def test_check_says_what_is_pending_and_changes_nothing(
    call: Callable[..., Result], blank_postgresql: str
) -> None:
    checked = call("migrate", "--store", blank_postgresql, "--check")
    assert checked.exit_code == ExitCode.FAILED
    assert all(label in checked.stdout for label in LABELS)
    with psycopg.connect(blank_postgresql) as connection:
        assert connection.execute("SELECT to_regnamespace('tickwheel')").fetchone() == (None,)
    assert call("migrate", "--store", blank_postgresql).exit_code == 0
    again = call("migrate", "--store", blank_postgresql, "--check")
    assert again.exit_code == 0
    assert "is up to date" in again.stdout


def test_the_plan_is_sql_that_can_be_read_before_it_is_run(
    call: Callable[..., Result], blank_postgresql: str, tmp_path: Path
) -> None:
    plan = call("migrate", "--store", blank_postgresql, "--plan")
    assert plan.exit_code == 0
    assert f"-- {LABELS[0]}\n" in plan.stdout
    assert "CREATE TABLE tickwheel.jobs (" in plan.stdout
    assert "CREATE TABLE jobs (" in call("migrate", "--data", str(tmp_path), "--plan").stdout
    call("migrate", "--store", blank_postgresql)
    assert call("migrate", "--store", blank_postgresql, "--plan").stdout.startswith("-- postgresql://")


def test_two_migrators_at_once_do_it_once(blank_postgresql: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        done = list(
            threads.map(lambda _: json_of(run_cli("migrate", "--store", blank_postgresql, "--json")), range(2))
        )
    assert sorted(answer["applied"] for answer in done) == [[], LABELS]


def test_passwords_are_not_shown(call: Callable[..., Result], blank_postgresql: str) -> None:
    url = blank_postgresql.replace("postgres@", "postgres:s3cret-word@")
    shown = call("migrate", "--store", url).stdout
    assert "postgres:***@" in shown
    for arguments in (("--plan",), ("--check",), ("--json",)):
        assert "s3cret-word" not in call("migrate", "--store", url, *arguments).stdout
    gone = call("migrate", "--store", "postgresql://app:s3cret-word@127.0.0.1:1/x")
    assert gone.exit_code == ExitCode.BUSY
    assert "s3cret-word" not in gone.stderr
    assert len(gone.stderr.splitlines()) == 1


def test_after_a_restore_epochs_rise_on_postgresql(call: Callable[..., Result], blank_postgresql: str) -> None:
    result = call("migrate", "--store", blank_postgresql, "--after-restore", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["epochs_raised"]
    with psycopg.connect(blank_postgresql) as connection:
        assert connection.execute("SELECT min(epoch) FROM tickwheel.shards").fetchone() == (1_024,)


def test_after_a_restore_epochs_rise_on_sqlite(call: Callable[..., Result], tmp_path: Path) -> None:
    """D8: tokens of starts that a restored folder forgot must not come again."""
    data = ("--data", str(tmp_path / "data"))
    call("migrate", *data)
    result = call("migrate", *data, "--after-restore")
    assert result.exit_code == 0, result.stderr
    assert "nodes may start now" in result.stdout
    (database,) = (path for path in tmp_path.rglob("tickwheel.db") if path.is_file())
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT min(epoch), max(epoch) FROM shards").fetchone() == (1_024, 1_024)


def test_after_a_restore_is_refused_where_it_makes_no_sense(call: Callable[..., Result], tmp_path: Path) -> None:
    assert call("migrate", "--store", "memory:", "--after-restore").exit_code == ExitCode.USAGE
    assert call("migrate", "--data", str(tmp_path), "--plan", "--after-restore").exit_code == ExitCode.USAGE
