"""The tree of commands: complete, explained, and quick to list."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.main import COMMANDS, cli

WANTED = (
    "dev",
    "serve",
    "worker",
    "jobs",
    "runs",
    "explain",
    "tail",
    "dlq",
    "workers",
    "slo",
    "tokens",
    "secrets",
    "tenants",
    "notifications",
    "audit-log",
    "preview",
    "migrate",
    "doctor",
    "audit",
    "plan",
    "bench",
)
OF_JOBS = {
    "create",
    "get",
    "list",
    "edit",
    "cancel",
    "pause",
    "resume",
    "trigger",
    "delete",
    "runs",
}


def every_command() -> Iterator[tuple[str, click.Command]]:
    def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            for name in command.commands:
                yield from walk(f"{path} {name}", command.commands[name])

    for name in COMMANDS:
        yield from walk(name, COMMANDS[name])


def test_root_lists_every_command_with_a_line(call: Callable[..., Result]) -> None:
    text = call("--help").output
    for name, entry in COMMANDS.entries.items():
        assert f"  {name} " in text
        assert entry.summary in text
    assert tuple(COMMANDS) == WANTED


def test_jobs_has_its_commands() -> None:
    jobs = COMMANDS["jobs"]
    assert isinstance(jobs, click.Group)
    assert set(jobs.commands) == OF_JOBS


def test_help_of_the_root_names_exit_codes_and_completion(call: Callable[..., Result]) -> None:
    text = call("--help").output
    for code in ExitCode:
        assert f"  {code.value}  {code.meaning}" in text
    assert "_TICKWHEEL_COMPLETE=bash_source" in text


def test_an_option_before_the_command_is_sent_behind_it(call: Callable[..., Result]) -> None:
    result = call("--json", "jobs", "list")
    assert result.exit_code == ExitCode.USAGE
    assert "--json follows the command" in result.stderr


@pytest.mark.parametrize(("path", "command"), list(every_command()), ids=lambda value: str(value)[:30])
def test_every_command_and_option_is_explained(path: str, command: click.Command) -> None:
    assert command.help, path
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts}"


def test_list_says_what_the_command_says() -> None:
    for name, entry in COMMANDS.entries.items():
        if name in ("serve", "doctor", "tail", "preview", "migrate"):
            continue  # theirs go on in the same sentence
        help_text = COMMANDS[name].help or ""
        assert help_text.startswith(entry.summary), name


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_listing_commands_loads_no_driver(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from tickwheel.interfaces.cli.main import cli\n"
        f"try:\n    cli({arguments!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'apsw', 'pycurl', 'starlette', 'uvicorn', 'structlog', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=30)


def test_version_is_that_of_the_package(call: Callable[..., Result]) -> None:
    assert call("--version").output.startswith("tickwheel 0.")


def test_unknown_command_suggests_the_near_one(call: Callable[..., Result]) -> None:
    result = call("job")
    assert result.exit_code == ExitCode.USAGE
    assert "jobs" in result.stderr


def test_commands_are_data_for_whoever_walks_the_tree() -> None:
    assert isinstance(cli, click.Group)
    assert len(cli.commands) == len(WANTED)
    assert "jobs" in cli.commands
    assert "nope" not in cli.commands


def test_completion_offers_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tickwheel"],
        env={"_TICKWHEEL_COMPLETE": "bash_complete", "COMP_WORDS": "tickwheel do", "COMP_CWORD": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert "doctor" in done.stdout, done
