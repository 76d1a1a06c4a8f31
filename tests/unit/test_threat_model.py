"""The tests that the threat model names exist, and it is found from where people look."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
ROW = re.compile(r"^\| (?!-)(.+) \|$", re.MULTILINE)


def test_every_test_that_it_names_exists() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", PAGE.read_text()))
    assert len(named) > 25
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []


def test_every_threat_names_a_test() -> None:
    rows = [row.split(" | ") for row in ROW.findall(PAGE.read_text())]
    threats = [row for row in rows if len(row) == 4 and row[0] != "threat"]
    assert len(threats) > 25
    assert [row[0] for row in threats if "`tests/" not in row[2]] == []


def test_it_is_linked() -> None:
    for page in ("SECURITY.md", "docs/index.md"):
        assert "threat-model.md" in (ROOT / page).read_text(), page
