"""The table of reported faults names the tests that there are, and misses none."""

from pathlib import Path

import pytest

import fault_table

UNIT = """
import pytest

CASES = [1, pytest.param(2, marks=pytest.mark.pitfall(5))]
OTHERS = [pytest.param(2, marks=pytest.mark.pitfall(9))]


@pytest.mark.pitfall(3)
@pytest.mark.parametrize("case", CASES)
async def test_both(case): ...


def test_plain(): ...
"""
WIDE = """
import pytest


class TestIt:
    @pytest.mark.pitfall(3)
    @pytest.mark.pitfall(4)
    def test_wide(self): ...
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    for folder, text in (("unit", UNIT), ("acceptance", WIDE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_it.py").write_text(text)
    return tmp_path


def test_marks_are_found_on_tests_and_in_their_cases_the_widest_first(tests: Path) -> None:
    wide, both = (f"{tests}/{name}" for name in ("acceptance/test_it.py::test_wide", "unit/test_it.py::test_both"))
    assert fault_table.marked_tests(tests) == {3: [wide, both], 4: [wide], 5: [both]}


def test_a_case_without_a_test_and_a_test_without_a_case_are_told() -> None:
    gaps = fault_table.find_gaps({1: {}, 2: {}}, {2: ["a::b"], 3: ["c::d"]})
    assert gaps == ["case 1 has words but no test", "case 3 has no words; it is marked in c::d"]
