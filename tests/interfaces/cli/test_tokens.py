"""`tickwheel tokens`: the first key in the store, the others on the server; and what the server makes of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import ServerProcess

Call = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def admin(call: Call, data: Path) -> str:
    """The first key."""
    made = call("tokens", "create", "--role", "admin", "--all-tenants", "--data", str(data))
    assert made.exit_code == 0, made.output
    return made.stdout.splitlines()[0]


@pytest.fixture
def locked(data: Path, admin: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on that store; nothing else says that it has to ask for tokens."""
    with ServerProcess("--data", str(data), folder=tmp_path, command="serve") as running:
        yield running


def test_the_first_key_locks_the_server_and_opens_it(call: Call, admin: str, locked: ServerProcess) -> None:
    where = {"TICKWHEEL_URL": locked.url}
    without = call("jobs", "list", **where)
    assert without.exit_code == ExitCode.UNAUTHORIZED
    assert call("jobs", "list", **where, TICKWHEEL_TOKEN=admin).exit_code == 0
    assert admin not in "".join(locked.lines)


def test_the_first_key_made_on_an_open_server_closes_it_at_once(call: Call, data: Path, tmp_path: Path) -> None:
    with ServerProcess("--data", str(data), folder=tmp_path, command="serve") as running:
        where = {"TICKWHEEL_URL": running.url}
        assert call("jobs", "list", **where).exit_code == 0
        made = call("tokens", "create", "--role", "admin", "--all-tenants", **where)
        assert call("jobs", "list", **where).exit_code == ExitCode.UNAUTHORIZED
        assert call("jobs", "list", **where, TICKWHEEL_TOKEN=made.stdout.splitlines()[0]).exit_code == 0


def test_the_life_of_a_key_on_a_server(call: Call, admin: str, locked: ServerProcess) -> None:
    where = {"TICKWHEEL_URL": locked.url, "TICKWHEEL_TOKEN": admin}
    wanted = ("--role", "scheduler", "--tenant", "shop", "--expires-in", "90d")
    made = call("tokens", "create", *wanted, "--json", **where)
    first = json.loads(made.stdout)
    assert (first["tenant_id"], first["role"]) == ("shop", "scheduler")
    mine = {"TICKWHEEL_URL": locked.url, "TICKWHEEL_TOKEN": first["token"]}
    job = ("jobs", "create", "--in", "1h", "--endpoint", "https://example.com/hook")
    assert json.loads(call(*job, "--json", **mine).stdout)["tenant_id"] == "shop"
    forbidden = call("tokens", "list", **mine)
    assert forbidden.exit_code == ExitCode.UNAUTHORIZED
    assert "tokens:write" in forbidden.stderr
    # A whole key where an id is meant is cut down to its id, and not sent.
    rotated = call("tokens", "rotate", first["token"], "--grace", "0s", **where)
    assert call("jobs", "list", **mine).exit_code == ExitCode.UNAUTHORIZED
    mine["TICKWHEEL_TOKEN"] = rotated.stdout.splitlines()[0]
    assert call("jobs", "list", **mine).exit_code == 0
    listed = call("tokens", "list", "--tenant", "shop", **where).stdout
    assert first["token_id"] in listed
    assert call("tokens", "revoke", first["token_id"], **where).exit_code == 0
    assert call("jobs", "list", **mine).exit_code == ExitCode.UNAUTHORIZED
    log = call("audit-log", "--action", "token.", "--json", **where)
    actions = [entry["action"] for entry in json.loads(log.stdout)["entries"]]
    assert actions == ["token.revoke", "token.rotate", "token.create", "token.create"]
    assert call("audit-log", "--action", "token.", **where).stdout.count("  key:") == 3


def test_a_store_in_use_points_to_its_server(call: Call, data: Path, locked: ServerProcess) -> None:
    result = call("tokens", "list", "--data", str(data))
    assert result.exit_code == ExitCode.FAILED
    assert "--url and --token" in result.stderr


def test_keys_of_a_store_that_nobody_uses(call: Call, admin: str, data: Path) -> None:
    key_id = admin.split("_")[1]
    where = ("--data", str(data))
    assert [one["token_id"] for one in json.loads(call("tokens", "list", "--json", *where).stdout)["tokens"]] == [
        key_id
    ]
    renewed = call("tokens", "rotate", key_id, *where).stdout.splitlines()[0]
    assert renewed != admin
    assert call("tokens", "revoke", key_id, *where).exit_code == 0
    again = call("tokens", "revoke", key_id, *where)
    assert again.exit_code == ExitCode.NOT_FOUND
    assert "There is no API key" in call("tokens", "list", *where).stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--role", "king"), "'king' is not one of"),
        ((), "Missing option '--role'"),
        (("--role", "reader", "--scope", "jobs:write"), "the role reader does not have jobs:write"),
        (("--role", "reader", "--tenant", "a", "--all-tenants"), "--tenant, or --all-tenants"),
        (("--role", "reader", "--expires-in", "soon"), "'soon' is not a length"),
        (("--role", "reader", "--tenant", "a\x01b"), "tenant_id"),
        (("--role", "reader", "--label", "a\x00b"), "label"),
    ],
)
def test_what_is_wrong_is_told(call: Call, data: Path, arguments: tuple[str, ...], complaint: str) -> None:
    result = call("tokens", "create", *arguments, "--data", str(data))
    assert result.exit_code == ExitCode.USAGE
    assert complaint in result.stderr


@pytest.mark.parametrize("arguments", [("revoke", "../../x"), ("rotate", "..")])
def test_what_is_no_id_is_sent_nowhere(call: Call, arguments: tuple[str, ...]) -> None:
    result = call("tokens", *arguments, TICKWHEEL_URL="http://127.0.0.1:1")
    assert result.exit_code == ExitCode.USAGE
    assert "is no id of a key" in result.stderr


def test_a_token_in_the_environment_means_the_server(call: Call, tmp_path: Path) -> None:
    result = call("tokens", "list", TICKWHEEL_TOKEN="tw_x", TICKWHEEL_URL="http://127.0.0.1:9")
    assert result.exit_code == ExitCode.UNREACHABLE


@pytest.mark.parametrize(
    "command",
    [
        ("tokens", "list"),
        ("tokens", "revoke", "k3v9q2m7x4tz"),
        ("secrets", "list"),
        ("secrets", "delete", "a"),
        ("tenants", "list"),
        ("tenants", "usage", "shop"),
    ],
)
def test_looking_for_something_makes_no_store_in_a_mistaken_folder(
    call: Call, data: Path, command: tuple[str, ...]
) -> None:
    result = call(*command, "--data", str(data))
    assert (result.exit_code, f"there is no database in {data};" in result.stderr) == (ExitCode.USAGE, True)
    assert not data.exists()
