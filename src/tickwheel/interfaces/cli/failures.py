"""Exit codes, and errors as one clear line on standard error."""

from enum import IntEnum
from typing import IO, Any

import click

from tickwheel.domain.errors import ConfigError, InvalidRequest, TickwheelError


class ExitCode(IntEnum):
    """What the shell sees; stable. `meaning` is its line in the reference."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "It worked."
    FAILED = 1, "It did not work, for a reason that has no code of its own."
    USAGE = 2, "The command line, the settings or the request are wrong; the message names each problem."
    NOT_FOUND = 3, "There is no such job, run or dead letter."
    CONFLICT = 4, "The job or run is in a state that does not allow this, or it has changed meanwhile."
    UNREACHABLE = 5, "No server answers at that address, or not in time."
    UNAUTHORIZED = 6, "The server wants a token, or one that may do more."
    BUSY = 7, "The server can't do it now; the same command may work later."
    INTERRUPTED = 130, "Ctrl-C ended it before it was done."


_BY_ERROR_CODE = {
    "not_found": ExitCode.NOT_FOUND,
    "conflict": ExitCode.CONFLICT,
    "version_mismatch": ExitCode.CONFLICT,
    "idempotency_key_reused": ExitCode.CONFLICT,
    "server_unreachable": ExitCode.UNREACHABLE,
    "timed_out": ExitCode.UNREACHABLE,
    "unauthorized": ExitCode.UNAUTHORIZED,
    "forbidden": ExitCode.UNAUTHORIZED,
    "idempotency_key_in_flight": ExitCode.BUSY,
    "store_unavailable": ExitCode.BUSY,
    "outcome_unknown": ExitCode.BUSY,
    "overloaded": ExitCode.BUSY,
    "quota_exceeded": ExitCode.BUSY,
    "tenant_disabled": ExitCode.CONFLICT,
    "bad_cursor": ExitCode.USAGE,
    "unsupported_filter": ExitCode.USAGE,
}
_NOT_A_MISTAKE = frozenset(
    {
        "in_use",
        "newer_schema",
        "schema_behind",
        "clock_off",
        "standby",
        "read_only",
        "shard_count",
        "nodes_running",
    }
)
"""Problems of settings that are right as written but can't be had on this machine now."""


_REMEDIES = {
    "server_unreachable": " (`tickwheel dev` starts one; --url or TICKWHEEL_URL names another)",
    "unauthorized": " Set TICKWHEEL_TOKEN, or give --token.",
}
"""What the command line has to add to an error of the client, by its code."""


class Failure(click.ClickException):
    """Ends the command: `lines` go to standard error, the code to the shell."""

    exit_code: int  # type: ignore[misc]  # click declares a constant per class; ours differs per failure

    def __init__(self, lines: list[str], exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            click.echo(f"Error: {line}", file=file, err=file is None)


def failure_of(error: TickwheelError) -> Failure:
    """How an error of ours ends a command."""
    if isinstance(error, ConfigError):
        usage = not all(problem.code in _NOT_A_MISTAKE for problem in error.problems)
        lines = [f"{problem.field}: {problem.message}" for problem in error.problems]
        return Failure(lines, ExitCode.USAGE if usage else ExitCode.FAILED)
    if isinstance(error, InvalidRequest) and error.problems:
        lines = [
            f"{problem.field}: {problem.message}" if problem.field else problem.message
            for problem in error.problems
        ]
        return Failure(lines, ExitCode.USAGE)
    return Failure([str(error) + _REMEDIES.get(error.code, "")], _BY_ERROR_CODE.get(error.code, ExitCode.FAILED))
