"""The smoke run of the benchmarks looks at what they print."""

import pytest

import check_benchmarks

GOOD = 'starting\n{"jobs_per_s": 12.5, "store": "sqlite"}\n'


def test_promised_number_in_the_last_line_passes() -> None:
    assert check_benchmarks.find_problem("ingest", GOOD) is None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", "the last line is not JSON"),
        ('{"jobs_per_s": 1}\ndone\n', "the last line is not JSON"),
        ("[1]", "the last line is not a JSON object"),
        ('{"jobs_per_s": 1, "late": {"p50": 1}}', "late is not flat"),
        ('{"runs_per_s": 1}', "jobs_per_s is None, not a number"),
        ('{"jobs_per_s": NaN}', "jobs_per_s is nan, not a number"),
        ('{"jobs_per_s": true}', "jobs_per_s is True, not a number"),
    ],
)
def test_anything_else_is_named(output: str, expected: str) -> None:
    assert check_benchmarks.find_problem("ingest", output) == expected
