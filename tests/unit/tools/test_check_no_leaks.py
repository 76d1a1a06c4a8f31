"""The gate on private paths, package hosts and files of private tools.

The forbidden words are put together here from two halves, so that this file passes its own gate.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

import check_no_leaks


def joined(*halves: str) -> str:
    return "".join(halves)


FORBIDDEN_LINES = [
    joined("see /wo", "rk/shared/notes.md"),
    joined("open('/ro", "ot/.cache')"),
    joined("ExecStart=/ho", "me/ann/tickwheel/bin/tickwheel"),
    joined("/Us", "ers/ann/code"),
    joined("--hash from https://files.python", "hosted.org/packages/x"),
    joined("--index", "-url https://mirror.example/simple"),
    joined('"resolved"', ': "https://example.org/x.tgz"'),
    joined("Written with Cl", "aude"),
    joined("Co-authored", "-by: somebody"),
]
HARMLESS_LINES = [
    "POST /v1/jobs HTTP/1.1",
    'route("/work")',
    "https://api.example/home/page",
    "tests/faults/work/",
    joined("~/wo", "rk/notes"),
    "the next_cursor of the page before",
    "data in ./.tickwheel/",
    "/var/lib/tickwheel",
]


@pytest.mark.parametrize("line", FORBIDDEN_LINES)
def test_forbidden_text_is_found_with_its_place(line: str) -> None:
    found = list(check_no_leaks.find_in_text("a.md", f"fine\n{line}\n"))
    assert len(found) == 1
    assert found[0].startswith("a.md:2: ")


@pytest.mark.parametrize("line", HARMLESS_LINES)
def test_ordinary_text_passes(line: str) -> None:
    assert list(check_no_leaks.find_in_text("a.md", line)) == []


@pytest.mark.parametrize(
    "name",
    [
        joined("u", "v.lock"),
        joined("sub/pylo", "ck.toml"),
        joined("CLA", "UDE.md"),
        joined("docs/AGE", "NTS.md"),
        joined(".cla", "ude/settings.json"),
        joined(".cur", "sorrules"),
    ],
)
def test_forbidden_file_names_are_found(name: str) -> None:
    assert check_no_leaks.find_in_names([Path(name), Path("README.md")]) == [f"{name}: does not belong here"]


def test_ordinary_file_names_pass() -> None:
    assert check_no_leaks.find_in_names([Path("requirements.lock"), Path("src/tickwheel/agents.py")]) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_leak_fails_the_command_and_an_ignored_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("private.md\n")
    (tmp_path / "private.md").write_text(FORBIDDEN_LINES[0])
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0" + FORBIDDEN_LINES[0].encode())
    monkeypatch.chdir(tmp_path)
    assert check_no_leaks.main() == 0
    (tmp_path / "public.md").write_text(FORBIDDEN_LINES[0])
    assert check_no_leaks.main() == 1
    assert "public.md:1: private path" in capsys.readouterr().err
