"""`tickwheel tenants`: records in a store and on a server, what is used, and what a disabled tenant's runs do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import ServerProcess, json_of, run_cli, wait_until

Call = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def served(data: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on that store that asks nobody for a token, with targets on this machine."""
    with ServerProcess("--data", str(data), folder=tmp_path) as running:
        yield running


def in_store(call: Call, data: Path, *arguments: str) -> Any:
    result = call("tenants", *arguments, "--data", str(data), "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_flags_change_what_they_name_and_nothing_else(call: Call, data: Path) -> None:
    made = in_store(call, data, "set", "acme", "--max-jobs", "5", "--weight", "0.5", "--allow", "*.a.example")
    assert (made["limits"]["max_jobs"], made["limits"]["weight"], made["version"]) == (5, 0.5, 1)
    more = ("--concurrency", "3", "--note", "small", "--disable", "--allow-private", "10.0.0.0/8")
    changed = in_store(call, data, "set", "acme", *more)
    assert (changed["limits"]["max_jobs"], changed["limits"]["concurrency"]) == (5, 3)
    assert changed["egress"] == {"allow": ["*.a.example"], "allow_private": ["10.0.0.0/8"], "proxy": None}
    assert (changed["disabled"], changed["note"]) == (True, "small")
    less = ("--max-jobs", "none", "--allow", "none", "--allow-private", "none", "--enable")
    freed = in_store(call, data, "set", "acme", *less)
    assert (freed["limits"]["max_jobs"], freed["limits"]["concurrency"]) == (None, 3)
    assert (freed["egress"], freed["disabled"], freed["note"], freed["version"]) == (None, False, "small", 3)


def test_defaults_and_what_holds(call: Call, data: Path) -> None:
    where = ("--data", str(data))
    in_store(call, data, "set", "acme", "--max-jobs", "1")
    in_store(call, data, "delete", "acme")
    assert "No tenant has a record" in call("tenants", "list", *where).stderr
    in_store(call, data, "set", "--defaults", "--max-jobs", "9", "--due-per-second", "50")
    in_store(call, data, "set", "acme", "--max-jobs", "5", "--requests-per-second", "2000", "--weight", "0.5")
    shown = call("tenants", "show", "acme", *where).stdout
    assert "max_jobs             5\n" in shown
    assert "due_per_second       50 (from the defaults)" in shown
    assert "never: it has no record" in call("tenants", "show", "other", *where).stdout
    rows = [line.split() for line in call("tenants", "list", *where).stdout.splitlines()]
    assert [row[:6] for row in rows[1:]] == [
        ["*", "9", "-", "50", "-", "-"],
        ["acme", "5", "2,000", "50", "-", "0.5"],
    ]
    listed = in_store(call, data, "list")
    assert [one["tenant_id"] for one in listed["tenants"]] == ["acme"]
    assert listed["defaults"]["limits"]["max_jobs"] == 9
    assert call("tenants", "delete", "--defaults", *where).stdout == "the defaults are deleted\n"
    assert in_store(call, data, "show", "--defaults")["version"] is None


def test_deleting_leaves_what_the_defaults_give(call: Call, data: Path) -> None:
    where = ("--data", str(data))
    in_store(call, data, "set", "acme", "--max-jobs", "5")
    assert in_store(call, data, "delete", "acme") == {"tenant_id": "acme", "deleted": True}
    assert call("tenants", "delete", "acme", *where).exit_code == ExitCode.NOT_FOUND
    usage = {one["limit"]: one for one in in_store(call, data, "usage", "--tenant", "acme")["limits"]}
    assert (usage["max_jobs"]["allowed"], usage["max_jobs"]["used"]) == (None, 0)
    assert usage["requests_per_second"]["used"] is None  # only a server counts them


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show",), "name one tenant, or --defaults"),
        (("show", "a", "--tenant", "b"), "one of them only"),
        (("show", "a", "--defaults"), "one of them only"),
        (("show", "a\x01b"), "TENANT"),
        (("set", "a", "--max-jobs", "-1"), "limits.max_jobs"),
        (("set", "a", "--max-jobs", "many"), "neither a number nor `none`"),
        (("set", "a", "--weight", "0"), "limits.weight"),
        (("set", "a", "--allow", "http://x/"), "egress.allow[0]"),
        (("set", "a", "--proxy", "A B"), "egress.proxy"),
        (("usage", "a", "--store", "memory:"), "memory: can't be looked into"),
    ],
)
def test_what_is_wrong_is_told(call: Call, data: Path, arguments: tuple[str, ...], complaint: str) -> None:
    where = () if "--store" in arguments else ("--data", str(data))
    in_store(call, data, "set", "other", "--max-jobs", "1")
    result = call("tenants", *arguments, *where)
    assert (result.exit_code, complaint in result.stderr) == (ExitCode.USAGE, True), result.stderr


@pytest.mark.slow
def test_limits_on_a_server(served: ServerProcess) -> None:
    url = served.url
    made = json_of(run_cli("tenants", "set", "acme", "--max-jobs", "2", "--json", url=url))
    assert made["version"] == 1
    job = ("jobs", "create", "--in", "1h", "--endpoint", "https://example.com/hook", "--tenant", "acme", "--json")
    for _ in range(2):
        json_of(run_cli(*job, url=url))
    refused = run_cli(*job, url=url)
    assert refused.returncode != 0
    assert "2 jobs of the 2" in refused.stderr
    usage = json_of(run_cli("tenants", "usage", "acme", "--json", url=url))
    assert usage["limits"][0] == {"limit": "max_jobs", "allowed": 2, "used": 2, "at_least": False}
    assert usage["refused"]["max_jobs"] >= 1
    assert "max_jobs" in run_cli("tenants", "usage", "acme", url=url).stdout
    json_of(run_cli("tenants", "set", "acme", "--max-jobs", "3", "--json", url=url))
    json_of(run_cli(*job, url=url))
    log = json_of(run_cli("audit-log", "--action", "tenant.", "--json", url=url))
    assert [entry["action"] for entry in log["entries"]] == ["tenant.put", "tenant.put"]
    assert run_cli("tenants", "delete", "acme", url=url).returncode == 0


@pytest.mark.slow
def test_runs_of_a_disabled_tenant_wait_on_a_real_server(served: ServerProcess) -> None:
    url = served.url
    create = ("jobs", "create", "--in", "1s", "--endpoint", f"{url}/echo", "--json")
    json_of(run_cli("tenants", "set", "acme", "--disable", "--json", url=url))
    refused = run_cli(*create, "--tenant", "acme", url=url)
    assert "'acme' is disabled" in refused.stderr
    json_of(run_cli("tenants", "set", "acme", "--enable", "--json", url=url))
    acme = json_of(run_cli(*create[:2], "--in", "3s", *create[4:], "--tenant", "acme", url=url))["job_id"]
    other = json_of(run_cli(*create, url=url))["job_id"]
    json_of(run_cli("tenants", "set", "acme", "--disable", "--json", url=url))
    wait_until(lambda: served.client.get(other).status == "SUCCEEDED", why="the other tenant's run ends")

    def shown() -> Any:
        return json_of(run_cli("jobs", "get", acme, "--tenant", "acme", "--json", url=url))

    wait_until(lambda: shown()["waits_for"] == "disabled", why="it is due, and held")
    assert shown()["status"] == "SCHEDULED"
    json_of(run_cli("tenants", "set", "acme", "--enable", "--json", url=url))
    wait_until(lambda: shown()["status"] == "SUCCEEDED", why="it runs once its tenant is enabled")


@pytest.mark.slow
def test_a_store_in_use_points_to_its_server(call: Call, data: Path, served: ServerProcess) -> None:
    result = call("tenants", "list", "--data", str(data))
    assert (result.exit_code, "--url and --token" in result.stderr) == (ExitCode.FAILED, True)
