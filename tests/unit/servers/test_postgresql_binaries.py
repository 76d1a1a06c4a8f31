"""Which PostgreSQL the tests run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ...servers import postgresql_binaries
from ...servers.postgresql_binaries import SETTING, find_binaries, other_versions


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The choice of this process is not remembered here, nor what was chosen here afterwards."""
    monkeypatch.setattr(postgresql_binaries, "_found", lambda: iter(()))
    find_binaries.cache_clear()
    yield
    find_binaries.cache_clear()


def installed(folder: Path, version: str) -> Path:
    """A folder with programs that say so."""
    folder.mkdir()
    for name in ("postgres", "initdb"):
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_named_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = installed(tmp_path / "seventeen", "17.9")
    monkeypatch.setenv(SETTING, str(folder))
    assert find_binaries() == folder


@pytest.mark.parametrize("version", ["14.1", None])
def test_another_one_is_not_taken_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    """Else one would believe to have tested a version that never ran."""
    folder = tmp_path / "empty" if version is None else installed(tmp_path / "old", version)
    monkeypatch.setattr(postgresql_binaries, "_found", lambda: iter([installed(tmp_path / "found", "16.1")]))
    monkeypatch.setenv(SETTING, str(folder))
    with pytest.raises(RuntimeError, match=SETTING):
        find_binaries()


def test_other_versions_are_each_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (installed(tmp_path / v, v) for v in ("16.14", "18.6", "17.9"))
    again = installed(tmp_path / "again", "18.4")
    monkeypatch.setattr(postgresql_binaries, "_found", lambda: iter([again]))
    monkeypatch.setenv(SETTING, f"{first}:{second}:{third}")
    assert find_binaries() == first
    assert other_versions() == [second, third]
