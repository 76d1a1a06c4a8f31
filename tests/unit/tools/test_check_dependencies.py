"""The gate on dependencies."""

import json
import tomllib
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

import check_dependencies as gate
import known_vulnerabilities as known

ROOT = Path(__file__).parents[3]
RULES = tomllib.loads((ROOT / "tools" / "dependencies.toml").read_text())
HASH = "    --hash=sha256:" + "0" * 64
DECLARED = gate.Declared(
    {
        "project": {
            "dependencies": ["click>=8", "Uvloop; os_name != 'nt'"],
            "optional-dependencies": {"pg": ["psycopg[c]"]},
        },
        "dependency-groups": {"dev": ["pytest>=8", "ruff"]},
    }
)
PROVIDED = {
    "click": ["click"],
    "uvloop": ["uvloop"],
    "psycopg": ["psycopg"],
    "pytest": ["pytest"],
    "yaml": ["PyYAML"],
}
BARE: dict[str, Any] = {
    "not_imported": {"ruff": "a command"},
    "elsewhere": {"celery": "x"},
    "brought": {"pytest": "x"},
}
USED = {"src/a.py": {"click", "uvloop", "psycopg", "json", "tickwheel"}, "tests/b.py": {"pytest", "click"}}


def test_the_project_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert gate.main() == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["click==8.5 \\", HASH], []),
        (["click==8.5 ; os_name == 'nt' \\", HASH + " \\", HASH, "idna==3 \\", HASH], []),
        (["click>=8.5 \\", HASH], ["x.lock:1: neither"]),
        (["click==8.5"], ["x.lock:1: neither"]),
        (["click==8.5 \\", "idna==3 \\", HASH], ["x.lock:1: a package without"]),
        (["click==8.5 \\"], ["x.lock: the last"]),
        (["click @ https://example.org/click.whl"], ["x.lock:1: neither"]),
        (["--extra-index-" + "url https://example.org"], ["x.lock:1: neither"]),
        (["click==8.5 \\", "    --hash=md5:00"], ["x.lock:2: neither", "x.lock: the last"]),
    ],
)
def test_a_lock_pins_by_hashes(lines: list[str], told: list[str]) -> None:
    problems: list[str] = []
    gate.read_lock("x.lock", "\n".join(lines), problems)
    assert len(problems) == len(told), problems
    assert all(problem.startswith(start) for problem, start in zip(problems, told, strict=True))


def test_locks_fit_together() -> None:
    both = {"a.lock": {"click": {"8"}}, "all.lock": {"click": {"8"}, "ruff": {"1"}}}
    assert list(gate.find_in_locks(both)) == []
    assert len(list(gate.find_in_locks(both | {"a.lock": {"click": {"9"}}, "all.lock": {"click": {"8"}}}))) == 1


class Described(Distribution):
    """A package with that metadata."""

    def __init__(self, *lines: str) -> None:
        self._text = "\n".join(["Metadata-Version: 2.4", "Name: x", "Version: 1", *lines, ""])

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path("/nowhere") / path


@pytest.mark.parametrize(
    ("lines", "expression"),
    [
        (["License-Expression: MIT OR Apache-2.0"], "MIT OR Apache-2.0"),
        (["Classifier: License :: OSI Approved :: MIT License"], "MIT"),
        (["License: MIT License"], "MIT"),
        (["License: Whatever you like"], ""),
        (["Classifier: License :: OSI Approved :: BSD License"], ""),
        ([], ""),
    ],
)
def test_licences_are_read_where_they_are_clear(lines: list[str], expression: str) -> None:
    assert gate.licence_of("x", Described(*lines), {}) == expression
    assert gate.licence_of("x", Described(*lines), {"x": "ISC"}) == "ISC"


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT AND Zlib", True),
        ("", False),
    ],
)
def test_every_part_of_one_alternative_must_be_allowed(expression: str, fine: bool) -> None:
    assert gate.is_allowed(expression, ["MIT", "Zlib"]) is fine


def test_what_is_shipped_has_stricter_licences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "distribution", lambda name: Described("License-Expression: MPL-2.0"))
    shipped: dict[str, dict[str, set[str]]] = {name: {} for name in gate.LOCKS}
    shipped[gate.LOCKS[0]]["thing"] = {"1"}
    assert list(gate.find_licences(shipped, RULES)) == [
        "thing: MPL-2.0 is not among the allowed ones (tools/dependencies.toml)"
    ]
    for_tests: dict[str, dict[str, set[str]]] = {name: {} for name in gate.LOCKS}
    for_tests[gate.LOCKS[2]]["thing"] = {"1"}
    assert list(gate.find_licences(for_tests, RULES)) == []
    excused = RULES | {"exceptions": {"thing": "x"}}
    assert list(gate.find_licences(shipped, excused)) == []
    assert "no exception any more" in next(gate.find_licences(for_tests, excused))


def test_imports_are_found() -> None:
    text = "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n import h\nimport_module('i.j')\nx(k)"
    assert gate.imports_of(text) == {"a", "c", "h", "i"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, []),
        ({"src/c.py": {"pytest"}}, []),
        ({"src/c.py": {"yaml"}}, ["src/c.py: imports yaml"]),
        ({"tests/c.py": {"yaml"}}, ["tests/c.py: imports yaml"]),
        ({"bench/c.py": {"celery"}}, []),
        ({"src/c.py": {"nix"}}, ["src/c.py: imports nix"]),
        ({"src/a.py": {"click", "psycopg"}}, ["pyproject.toml: asks for uvloop"]),
        ({"tools/c.py": {"ruff"}}, ["tools/c.py: imports ruff"]),
    ],
)
def test_what_is_imported_is_declared_and_the_other_way_round(more: dict[str, set[str]], told: list[str]) -> None:
    problems = list(gate.find_imports(USED | more, DECLARED, PROVIDED, BARE))
    assert [one.partition(",")[0] for one in problems] == told


def test_exemptions_that_are_not_needed_are_told() -> None:
    rules = BARE | {"not_imported": {"ruff": "x", "click": "x", "gone": "x"}}
    problems = list(gate.find_imports(USED, DECLARED, PROVIDED, rules))
    assert [one.split()[1] for one in problems] == ["click", "gone"]


REPORT = {
    "dependencies": [
        {"name": "good", "version": "1", "vulns": []},
        {"name": "bad", "version": "2", "vulns": [{"id": "GHSA-1", "fix_versions": ["3", "4"]}]},
        {"name": "odd", "skip_reason": "not there"},
    ]
}


def test_a_report_is_read() -> None:
    problems, known_count, unknown_count = known.read_report(json.dumps(REPORT))
    assert problems == ["bad 2: GHSA-1, mended in 3 or 4"]
    assert (known_count, unknown_count) == (2, 1)


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (REPORT, 1, "bad 2: GHSA-1"),
        ({"dependencies": REPORT["dependencies"][:1]}, 0, "1 packages without known"),
        ({"dependencies": REPORT["dependencies"][2:]}, 0, "not asked"),
        (OSError("no route"), 0, "can't be reached (no route)"),
        ({}, 0, "not asked"),
    ],
)
def test_what_is_not_known_is_said_and_no_failure(
    answer: Any, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(accepted: object, folder: Path) -> str:
        if isinstance(answer, OSError):
            raise answer
        return json.dumps(answer)

    monkeypatch.setattr(known, "ask", ask)
    assert known.main() == code
    captured = capsys.readouterr()
    assert told in captured.out + captured.err
