"""`tickwheel plan` tells what a load needs, to people and to programs."""

import json

import pytest
from click.testing import CliRunner

from tickwheel.interfaces.cli.main import cli


def test_people_get_sizes_that_they_can_read() -> None:
    shown = CliRunner().invoke(cli, ["plan", "--jobs", "500000000", "--peak", "50000", "--mean", "5000"])
    assert shown.exit_code == 0
    lines = dict(line.split("  ", 1) for line in shown.output.splitlines())
    assert lines["write-ahead log"].strip() == "67 MB per second at the peak"
    assert "GB" in lines["disk, waiting jobs"]
    assert lines["buffer"].strip().startswith("2.38 GB of Redis for 36,000,000 timers")


def test_programs_get_numbers() -> None:
    shown = CliRunner().invoke(cli, ["plan", "--jobs", "1000", "--peak", "10", "--json"])
    assert json.loads(shown.output)["waiting_bytes"] == 930_000


@pytest.mark.parametrize(
    "flags",
    [
        ["--jobs", "-1", "--peak", "1"],
        ["--jobs", "1"],
        *(["--jobs", "1", "--peak", peak] for peak in ("x", "nan", "inf", "1e300")),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_name_of_its_flag(flags: list[str]) -> None:
    shown = CliRunner().invoke(cli, ["plan", *flags])
    assert shown.exit_code == 2
    assert "--peak" in shown.output or "--jobs" in shown.output
