"""Tables, lengths, and what reaches a terminal."""

from datetime import UTC, datetime

import click
import pytest

from tickwheel.domain.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    NotFound,
    Overloaded,
    StoreUnavailable,
    TickwheelError,
)
from tickwheel.interfaces.cli.failures import ExitCode, failure_of
from tickwheel.interfaces.cli.instants import Length, exact, short
from tickwheel.interfaces.cli.output import print_fields, print_table, printable
from tickwheel.interfaces.client.errors import ServerUnreachable, Unauthorized


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45m", 2700), ("1h30m", 5400), ("90", 90), ("0.5s", 0.5), ("250ms", 0.25), ("2d", 172_800), ("1W", 604_800)],
)
def test_lengths(text: str, seconds: float) -> None:
    assert Length().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-5m", "5 m", "5x", "m", "1h-", "٣s", "1e3", "nan"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="1h30m"):
        Length().convert(text, None, None)


def test_instants_are_utc_with_z() -> None:
    instant = datetime(2026, 10, 1, 2, 3, 4, 56_000, tzinfo=UTC)
    assert short(instant) == "2026-10-01 02:03:04Z"
    assert exact(instant) == "2026-10-01 02:03:04.056Z"
    assert (short(None), exact(None)) == ("-", None)


def test_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "LONG"), [("xxx", 1), (None, "y")], empty="")
    assert capsys.readouterr().out == "A    LONG\nxxx  1\n-    y\n"


def test_empty_table_leaves_standard_output_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A",), [], empty="Nothing.")
    assert capsys.readouterr() == ("", "Nothing.\n")


def test_absent_fields_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("one", 1), ("none", None), ("empty", ""), ("zero", 0)])
    assert capsys.readouterr().out == "one   1\nzero  0\n"


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\nb", "a\rb", "\u202eabc", "\x07"])
def test_control_characters_become_dots(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest([FieldProblem("a", "b")]), ExitCode.USAGE),
        (NotFound("x"), ExitCode.NOT_FOUND),
        (Conflict("x"), ExitCode.CONFLICT),
        (ServerUnreachable("x"), ExitCode.UNREACHABLE),
        (Unauthorized("x"), ExitCode.UNAUTHORIZED),
        (Overloaded("x"), ExitCode.BUSY),
        (StoreUnavailable("x"), ExitCode.BUSY),
        (TickwheelError("x"), ExitCode.FAILED),
    ],
)
def test_errors_have_their_exit_codes(error: TickwheelError, code: ExitCode) -> None:
    assert failure_of(error).exit_code == code


def test_errors_of_the_connection_name_the_flag_that_helps() -> None:
    assert "--url" in failure_of(ServerUnreachable("no answer")).lines[0]
    assert "TICKWHEEL_TOKEN" in failure_of(Unauthorized("This server needs a token.")).lines[0]


def test_each_problem_is_a_line() -> None:
    error = InvalidRequest([FieldProblem("a", "is wrong"), FieldProblem("", "so is the rest")])
    assert failure_of(error).lines == ["a: is wrong", "so is the rest"]
