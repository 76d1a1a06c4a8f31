"""The gate on file length."""

import shutil
import subprocess
from pathlib import Path

import pytest

import check_file_sizes

LIMITS = {"src": 400, "tests": 600}


def problems(sizes: dict[str, int], ratchet: dict[str, int] | None = None) -> list[str]:
    return check_file_sizes.find_problems(sizes, LIMITS, ratchet or {})


def test_file_at_the_limit_passes_and_one_line_more_fails() -> None:
    assert problems({"src/a.py": 400}) == []
    assert problems({"src/a.py": 401}) == ["src/a.py: 401 lines, allowed are 400; split it by role"]


def test_each_folder_has_its_own_limit_and_other_folders_have_none() -> None:
    assert problems({"tests/test_a.py": 600, "docs/a.md": 5000, "README.md": 5000}) == []
    assert len(problems({"tests/test_a.py": 601})) == 1


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (500, None),
        (501, "allowed are 500"),
        (499, "lower its ratchet from 500"),
        (400, "take it out of the ratchet"),
    ],
)
def test_ratchet_only_falls(lines: int, expected: str | None) -> None:
    found = problems({"src/a.py": lines}, {"src/a.py": 500})
    assert (found == []) if expected is None else (len(found) == 1 and expected in found[0])


def test_ratchet_entry_without_a_file_is_reported() -> None:
    assert problems({}, {"src/gone.py": 500}) == ["src/gone.py: in the ratchet, but there is no such file"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_too_long_file_fails_the_command_even_before_it_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("src/cache/\n")
    (tmp_path / "src/cache").mkdir(parents=True)
    (tmp_path / "src/cache/long.py").write_text("x\n" * 900)
    (tmp_path / "src/short.py").write_text("x\n" * 4)
    monkeypatch.chdir(tmp_path)
    assert check_file_sizes.main() == 0
    assert "src: 1 files, median 4, longest 4 of 400" in capsys.readouterr().out
    (tmp_path / "src/long.py").write_text("x\n" * 401)
    assert check_file_sizes.main() == 1
    assert "src/long.py: 401 lines" in capsys.readouterr().err
