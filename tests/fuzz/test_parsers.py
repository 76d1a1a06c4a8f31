"""Every parser with odd input, in a short form; `make fuzz` is the long one.

How many inputs there are follows hypothesis's profile. They are the same ones in each run of a profile.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import tickwheel

from .all_parsers import GROUPS, all_parsers
from .once_failed import ONCE_FAILED, Seed
from .parser import Parser
from .running import CPU_LIMIT_S, Runner, measured

PARSERS = {parser.name: parser for parser in all_parsers()}
EACH = pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
TRIED_COUNT = settings().max_examples // 2
REACHED_WITHIN = {
    "parse_days_of_month": "parse_cron",
    "parse_days_of_week": "parse_cron",
    "parse_objective": "parse_objectives",
}
"""Parsers that others call with a part of their own input."""


@pytest.fixture(autouse=True)
def closed_afterwards() -> Iterator[None]:
    yield
    for parser in PARSERS.values():
        parser.close()


@pytest.mark.parametrize("seed", ONCE_FAILED, ids=lambda seed: f"{seed.parser}-{seed.broke.replace(' ', '-')}")
def test_what_failed_once_does_not_fail_again(seed: Seed) -> None:
    check = PARSERS[seed.parser].check
    _, first_s = measured(check, seed.data)
    _, again_s = measured(check, seed.data)  # the first one may have had to import something
    assert min(first_s, again_s) < CPU_LIMIT_S


@EACH
def test_the_first_example_is_taken(parser: Parser) -> None:
    assert parser.check(parser.examples[0])


@EACH
def test_odd_input_is_taken_or_refused_as_documented(parser: Parser) -> None:
    report = Runner(parser).run(max(10, int(TRIED_COUNT * parser.share)))
    for finding in report.findings.values():
        pytest.fail(f"{finding.kind}, with {finding.data!r}: {finding.text}")
    assert report.taken, "everything is refused: the grammar is of no use"
    assert report.refused or not parser.refuses, "everything is taken"


def test_every_parser_has_a_name_of_its_own() -> None:
    assert len(PARSERS) == len(all_parsers())
    assert len(GROUPS) > 1


def test_every_function_that_parses_is_fuzzed() -> None:
    sources = Path(tickwheel.__file__).parent.rglob("*.py")
    parsing = {name for path in sources for name in re.findall(r"^def (parse_\w+)\(", path.read_text(), re.M)}
    fuzzed = "".join(path.read_text() for path in Path(__file__).parent.joinpath("parsers").glob("*.py"))
    left = {name for name in parsing if not re.search(rf"\b{name}\b", fuzzed)}
    assert left == set(REACHED_WITHIN), "write a `Parser` for it in tests/fuzz/parsers"
    assert set(REACHED_WITHIN.values()) <= parsing
