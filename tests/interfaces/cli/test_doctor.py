"""`tickwheel doctor` and `tickwheel migrate`."""

import json
import shutil
from collections.abc import Callable
from collections.abc import Callable as Fn
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result

from tickwheel.config import Settings
from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.cli import checks
from tickwheel.interfaces.cli.checks import check_all
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.findings import Level
from tickwheel.interfaces.cli.mounts import file_system_of

from .server_process import ServerProcess


def looked_at(call: Fn[..., Result], *arguments: str) -> tuple[int, dict[str, Any]]:
    result = call("doctor", "--json", *arguments)
    answer = json.loads(result.stdout)
    assert answer["ok"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in answer["checks"]}


def test_healthy_machine(call: Callable[..., Result], tmp_path: Path) -> None:
    code, found = looked_at(call, "--data", str(tmp_path / "data"), "--port", "0")
    assert code == 0
    assert found["time zones"]["text"] == f"tzdata {tzdata_version()}"
    assert "does not exist yet" in found["data folder"]["text"]
    assert "migrations to do" in found["store"]["text"]
    assert not (tmp_path / "data").exists(), "looking changes nothing"
    names = ["tickwheel", "python", "libraries", "time zones", "event loop", "data folder", "disk", "store"]
    assert list(found) == [*names, "secrets", "open files", "clock", "port", "handlers"]
    text = call("doctor", "--data", str(tmp_path / "data"), "--port", "0").stdout
    assert "ok    time zones" in text


def test_wrong_settings_are_findings(call: Callable[..., Result]) -> None:
    result = call("doctor", "--port", "99999", "--lease-seconds", "1")
    assert result.exit_code == ExitCode.FAILED
    assert "FAIL  settings" in result.stdout
    assert "--port" in result.stdout
    assert "--lease-seconds" in result.stdout


def test_an_api_key_as_token_of_the_server_fails(call: Callable[..., Result], tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "data"))
    made = call("tokens", "create", "--role", "reader", *where)
    result = call("doctor", *where, TICKWHEEL_TOKEN=made.stdout.splitlines()[0])
    assert result.exit_code == 1
    assert "FAIL  token" in result.stdout
    assert "unset TICKWHEEL_TOKEN" in result.stdout


def test_port_of_a_running_server_is_fine(call: Callable[..., Result], server: ServerProcess) -> None:
    code, found = looked_at(call, "--store", "memory:", "--port", server.url.rpartition(":")[2])
    assert code == 0
    assert "answers at" in found["port"]["text"]
    assert found["store"]["level"] == "warn"
    assert "data folder" not in found


def test_port_of_another_program_fails(call: Callable[..., Result], tmp_path: Path) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        code, found = looked_at(call, "--data", str(tmp_path), "--port", str(other.getsockname()[1]))
    assert code == 1
    assert found["port"]["level"] == "fail"
    assert "--port" in found["port"]["remedy"]


def test_broken_handlers_module_fails(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_app_of_doctor.py").write_text("1 / 0\n")
    code, found = looked_at(call, "--data", "data", "--port", "0", "--app", "broken_app_of_doctor")
    assert code == 1
    assert "ZeroDivisionError" in found["handlers"]["text"]


def test_damaged_database_fails(call: Callable[..., Result], tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("migrate", "--data", str(data))
    (database,) = (path for path in data.rglob("tickwheel.db") if path.is_file())
    for beside in database.parent.glob("tickwheel.db-*"):
        beside.unlink()
    database.write_bytes(b"this is no database " * 500)
    code, found = looked_at(call, "--data", str(data), "--port", "0")
    assert code == 1
    assert found["store"]["level"] == "fail"


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "level"), [(1, Level.FAIL), (500 << 20, Level.WARN), (50 << 30, Level.OK)])
def test_full_disk_is_told(free: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 1, free))
    (disk,) = (f for f in check_all(Settings(data=str(tmp_path), port=0)) if f.name == "disk")
    assert disk.level is level


@pytest.mark.parametrize(
    ("kind", "level"),
    [("nfs4", Level.FAIL), ("cifs", Level.FAIL), ("tmpfs", Level.WARN), ("overlay", Level.WARN), ("", Level.OK)],
)
def test_file_system_that_loses_jobs_is_told(
    kind: str, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "file_system_of", lambda path: kind)
    (folder,) = (f for f in check_all(Settings(data=str(tmp_path), port=0)) if f.name == "data folder")
    assert folder.level is level
    assert bool(folder.remedy) == (level is not Level.OK)


def test_low_limit_of_open_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (256, 256))
    (files,) = (f for f in check_all(Settings(store="memory:", port=0)) if f.name == "open files")
    assert files.level is Level.WARN
    assert "LimitNOFILE" in files.remedy


def test_longest_and_latest_mount_point_wins(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    inner = tmp_path / "with space"
    inner.mkdir()
    escaped = str(inner).replace(" ", "\\040")
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\nserver:/x {escaped} nfs4 rw 0 0\nbroken\ntmpfs {escaped} tmpfs rw 0 0\n"
    )
    assert file_system_of(inner / "data", mounts) == "tmpfs"
    assert file_system_of(tmp_path, mounts) == "ext4"
    assert file_system_of(tmp_path, tmp_path / "no-such-file") == ""


def test_migrate_plans_checks_and_applies(call: Callable[..., Result], tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    plan = call("migrate", *data, "--plan")
    assert plan.exit_code == 0
    assert "0001 pre" in plan.stdout
    assert call("migrate", *data, "--check").exit_code == ExitCode.FAILED
    assert not (tmp_path / "data").exists(), "looking changes nothing"
    applied = json.loads(call("migrate", *data, "--json").stdout)
    assert applied["applied"]
    assert call("migrate", *data, "--check").exit_code == 0
    assert "up to date" in call("migrate", *data).stdout
    assert call("migrate", "--store", "memory:").exit_code == 0
