"""The worked examples and conversions of the reference page are true."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tickwheel.domain.cron import CronError, parse_cron, preview

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cron.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `([^`]+)` \| (\S+) \| (\S+Z) \| (.+) \|$", PAGE, re.MULTILINE)
CONVERSIONS = re.findall(r"^\| `(cron\([^`]+\))` \| `([^`]+)`", PAGE, re.MULTILINE)
REFUSED = ["60 * * * *", "0 22-6 * * *", "0 2 * * * root /bin/true", "H/15 * * * *", "0 0 15W * */7", "0 0 * * L"]


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), EXAMPLES)
def test_worked_example_is_true(expression: str, zone: str, start: str, expected: str) -> None:
    answers = tuple(expected.split(", "))
    start_ms = int(datetime.fromisoformat(start).astimezone(UTC).timestamp()) * 1000
    assert preview(expression, zone, start_ms, len(answers)).local == answers


@pytest.mark.parametrize(("theirs", "ours"), CONVERSIONS)
def test_conversion_is_the_one_that_the_error_names(theirs: str, ours: str) -> None:
    with pytest.raises(CronError, match=re.escape(repr(ours))):
        parse_cron(theirs)
    assert parse_cron(ours).next_after(0) is not None


@pytest.mark.parametrize("expression", REFUSED)
def test_refused_example_is_on_the_page_and_refused(expression: str) -> None:
    assert f"`{expression}`" in PAGE
    with pytest.raises(CronError):
        parse_cron(expression)


def test_page_has_the_examples() -> None:
    assert len(EXAMPLES) >= 10
    assert len(CONVERSIONS) >= 4
