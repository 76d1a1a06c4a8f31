"""What is installed, what is left out, and when a folder is made anew."""

from pathlib import Path

import pytest
from bench.peers.catalogue import GO, MAVEN, Runtime, find_peer
from bench.peers.clients import InstallFailed, is_stale, run_client, stamp
from bench.peers.compiled import build_go, build_java, java_command
from bench.peers.install import PROGRAMS, Toolchain


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`go`, `mvn` and `javac` that only note how they were called."""
    noted, folder = tmp_path / "noted", tmp_path / "bin"
    folder.mkdir()
    for name in ("go", "mvn", "javac"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {noted}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return noted


@pytest.mark.usefixtures("no_programs")
def test_without_go_or_java_peers_are_left_out_and_the_reason_is_one_line(tmp_path: Path) -> None:
    missing = Toolchain(tmp_path / "cache").install([find_peer("river"), find_peer("db-scheduler")])
    assert missing == {Runtime.GO: "go is not installed", Runtime.JAVA: "mvn is not installed"}


@pytest.mark.usefixtures("no_programs")
def test_without_npm_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match="npm is not installed"):
        Toolchain(tmp_path / "cache").install([find_peer("pg-boss")])


def test_nothing_is_asked_for_peers_that_do_not_take_part(tmp_path: Path) -> None:
    assert Toolchain(tmp_path / "cache").install([find_peer("tickwheel")]) == {}
    assert not (tmp_path / "cache").exists()


def test_a_client_that_says_no_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match="code 3: not here"):
        run_client(["sh", "-c", "echo not here >&2; exit 3"], tmp_path)


def test_a_folder_is_stale_when_a_version_changes(tmp_path: Path) -> None:
    assert is_stale(tmp_path, {"river": "1"})
    stamp(tmp_path, {"river": "1"})
    assert not is_stale(tmp_path, {"river": "1"})
    assert is_stale(tmp_path, {"river": "2"})


def test_go_gets_the_pinned_modules_once_and_builds_each_time(tmp_path: Path, clients: Path) -> None:
    folder = tmp_path / "go"
    build_go(folder, PROGRAMS)
    build_go(folder, PROGRAMS)
    get, *builds = clients.read_text().splitlines()
    assert get == "go get " + " ".join(f"{name}@v{version}" for name, version in GO.items())
    assert builds == ["go build -o program ."] * 2
    assert (folder / "river.go").is_file()


def test_maven_gets_the_pinned_artifacts_once(tmp_path: Path, clients: Path) -> None:
    folder = tmp_path / "java"
    build_java(folder, PROGRAMS)
    build_java(folder, PROGRAMS)
    called = [line.split()[0] for line in clients.read_text().splitlines()]
    assert called == ["mvn", "javac", "javac"]
    pom = (folder / "pom.xml").read_text()
    assert all(f"<version>{version}</version>" in pom for version in MAVEN.values())
    assert java_command(folder, "DbScheduler")[-1] == "DbScheduler"
