"""`tickwheel notifications` against a real server."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from .server_process import ServerProcess, wait_until


def test_a_rule_is_set_tried_listed_and_deleted(call: Callable[..., Result], server: ServerProcess) -> None:
    hook = f"{server.url}/echo"
    made = call("notifications", "set", "cli-ops", "--on", "run.dead_lettered", "--webhook", hook, "--quiet", "1h")
    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines()[-1].split() == ["quiet", "3600", "s"]
    tried = call("notifications", "test", "cli-ops")
    assert (tried.exit_code, tried.stdout) == (0, "delivered by webhook\n")
    warning = "warning: messages are not signed: the tenant has no signing secret called default\n"
    assert made.stderr == tried.stderr == warning
    [row] = [line for line in call("notifications", "list").stdout.splitlines() if line.startswith("cli-ops ")]
    assert row.split() == ["cli-ops", "default", "run.dead_lettered", "all", hook, "3600", "s"]
    told = json.loads(call("notifications", "list", "--json").stdout)
    assert "cli-ops" in [one["name"] for one in told["notifications"]]
    assert call("notifications", "delete", "cli-ops").stdout == "cli-ops is deleted\n"
    gone = call("notifications", "test", "cli-ops")
    assert gone.exit_code != 0
    assert "there is no rule of notification 'cli-ops'" in gone.output


def test_a_failure_reaches_the_receiver(call: Callable[..., Result], server: ServerProcess) -> None:
    nobody = "http://127.0.0.1:9/nobody-listens-here"
    call("notifications", "set", "cli-real", "--on", "run.dead_lettered", "--webhook", f"{server.url}/echo")
    server.client.schedule(
        schedule_type="INSTANT", job_name="cli-real", endpoint=nobody, retry_policy={"max_retries": 0}
    )

    def sent() -> bool:
        metrics = call_metrics(server)
        return 'tickwheel_notifications_total{outcome="sent"} 0.0' not in metrics

    wait_until(sent, why="the failure is told")
    call("notifications", "delete", "cli-real")


def call_metrics(server: ServerProcess) -> str:
    from urllib.request import urlopen

    with urlopen(f"{server.url}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def test_what_does_not_arrive_is_told_and_is_an_exit_code(
    call: Callable[..., Result], server: ServerProcess
) -> None:
    call("notifications", "set", "cli-deaf", "--on", "job.failing", "--webhook", "http://127.0.0.1:9/x")
    tried = call("notifications", "test", "cli-deaf")
    assert tried.exit_code == 1
    assert "not delivered by webhook: the connection was refused" in tried.output
    assert json.loads(call("notifications", "test", "cli-deaf", "--json").stdout)["delivered"] is False
    call("notifications", "delete", "cli-deaf")


def test_rules_of_the_installation_are_apart(call: Callable[..., Result], server: ServerProcess) -> None:
    arguments = ("--on", "objective.burning", "--webhook", f"{server.url}/echo", "--installation")
    assert call("notifications", "set", "cli-wide", *arguments).exit_code == 0
    assert "cli-wide" not in call("notifications", "list").stdout
    [row] = [
        line
        for line in call("notifications", "list", "--installation").stdout.splitlines()
        if line.startswith("cli-wide ")
    ]
    assert row.split()[1] == "*"
    assert call("notifications", "delete", "cli-wide", "--installation").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--on", "job.failing"), "name either --webhook or --email"),
        (("--on", "job.failing", "--webhook", "https://a.example", "--email", "a@b.example"), "make two rules"),
        (("--on", "job.failing", "--email", "a@b.example", "--sign-with", "x"), "mail is not signed"),
        (("--on", "run.failed", "--email", "a@b.example"), "run.dead_lettered"),
        (("--on", "job.failing", "--email", "a@b.example"), "smtp_url"),
        (("--on", "job.failing", "--webhook", "ftp://a.example"), "must start with http"),
        (("--on", "job.failing", "--webhook", "https://a.example", "--failures", "0"), "1 to 100"),
        (
            ("--on", "job.failing", "--webhook", "https://a.example", "--tenant", "x", "--installation"),
            "goes without --tenant",
        ),
    ],
)
def test_mistakes_are_explained(
    call: Callable[..., Result], server: ServerProcess, arguments: tuple[str, ...], word: str
) -> None:
    refused = call("notifications", "set", "cli-bad", *arguments)
    assert refused.exit_code != 0
    assert word in refused.output
