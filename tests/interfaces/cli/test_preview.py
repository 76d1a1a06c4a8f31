"""`tickwheel preview`, with flags and with JSON lines."""

import json
import subprocess
from collections.abc import Callable

import pytest
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import TICKWHEEL, clean_environment

SPRING = ("30 2 * * *", "--tz", "Europe/Berlin", "--start", "2026-03-28T12:00:00Z", "--count", "2")


def answers(call: Callable[..., Result], *lines: str | bytes) -> list[dict[str, object]]:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n"
    result = call("preview", "--jsonl", stdin=data)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_times_are_shown_in_utc_and_on_the_zones_clock_with_a_note(call: Callable[..., Result]) -> None:
    result = call("preview", *SPRING)
    assert result.stdout.splitlines() == [
        "2026-03-29T01:00:00Z  2026-03-29T03:00:00+02:00",
        "2026-03-30T00:30:00Z  2026-03-30T02:30:00+02:00",
    ]
    assert "note: 2026-03-29: the clock in Europe/Berlin goes from 02:00:00 to 03:00:00" in result.stderr


def test_json_has_times_notes_and_warnings(call: Callable[..., Result]) -> None:
    shown = json.loads(call("preview", *SPRING, "--json").stdout)
    assert shown["next"] == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert len(shown["local"]) == 2
    assert len(shown["notes"]) == 1
    assert shown["warnings"] == []


def test_start_is_now_where_none_is_named(call: Callable[..., Result]) -> None:
    assert len(call("preview", "* * * * *", "--count", "3").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("* * *",), "EXPR"),
        (("@daily", "--tz", "Europe/Berln"), "--tz"),
        (("@daily", "--start", "yesterday"), "--start"),
        (("@daily", "--count", "0"), "--count"),
        ((), "EXPR"),
        (("30", "2", "*", "*", "*"), "needs quotes: '30 2 * * *'"),
        (("@daily", "--jsonl"), "--jsonl"),
    ],
)
def test_mistakes_name_the_flag(call: Callable[..., Result], arguments: tuple[str, ...], named: str) -> None:
    result = call("preview", *arguments)
    assert result.exit_code == ExitCode.USAGE
    assert named in result.stderr.splitlines()[-1]


def test_each_line_has_its_answer_and_a_bad_one_stops_nothing(call: Callable[..., Result]) -> None:
    good = '{"expr":"30 2 * * *","tz":"Europe/Berlin","start":"2026-03-28T12:00:00Z","count":1}'
    found = answers(
        call,
        good,
        "{",
        "[]",
        "null",
        '{"expr":5}',
        '{"tz":"UTC"}',
        '{"expr":"* * *"}',
        '{"expr":"0 0 30 2 *"}',
        '{"expr":"@daily","tz":"../etc/passwd"}',
        '{"expr":"@daily","start":"1969-12-31T23:59:59Z"}',
        '{"expr":"@daily","count":1001}',
        b'{"expr":"\xff"}',
        "[" * 100_000,
        '{"expr":"' + "*" * 70_000 + '"}',
        good,
    )
    assert len(found) == 15
    assert found[0] == found[-1] == {"next": ["2026-03-29T01:00:00Z"], "warnings": []}
    assert [set(answer) for answer in found[1:-1]] == [{"error"}] * 13


def test_warnings_come_with_the_times(call: Callable[..., Result]) -> None:
    (found,) = answers(call, '{"expr":"0 0 */2 * MON","start":"2026-03-28T12:00:00Z","count":1}')
    assert len(found["warnings"]) == 1  # type: ignore[arg-type]  # a list, as the command promises


def test_empty_lines_are_passed_over(call: Callable[..., Result]) -> None:
    assert len(answers(call, "", "  ", '{"expr":"@daily"}', "")) == 1


def test_answers_come_line_by_line_not_at_the_end() -> None:
    with subprocess.Popen(
        [*TICKWHEEL, "preview", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(b'{"expr":"@daily","start":"2026-01-01T00:00:00Z","count":1}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["next"] == ["2026-01-02T00:00:00Z"]
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.pitfall(1)
def test_repeated_hour_rises_strictly(call: Callable[..., Result]) -> None:
    line = '{"expr":"30 * * * *","tz":"Europe/Helsinki","start":"2017-10-29T03:45:00+02:00","count":3}'
    assert answers(call, line)[0]["next"] == [
        "2017-10-29T02:30:00Z",
        "2017-10-29T03:30:00Z",
        "2017-10-29T04:30:00Z",
    ]
