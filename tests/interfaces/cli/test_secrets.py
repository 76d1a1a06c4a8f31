"""`tickwheel secrets`: on a store, on a server; keys of stored secrets made, changed and thrown away."""

import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from tickwheel.config.secret_keys import parse_secret_key
from tickwheel.domain.signing_key import SCHEME
from tickwheel.interfaces.cli.failures import ExitCode

from .server_process import ServerProcess, json_of, run_cli

Call = Callable[..., Result]
HEADER = "Bearer s3cret-of-the-target"
OWN = "whsec_YSB2YWx1ZSB0aGF0IHNvbWVib2R5IGhhcyBhbHJlYWR5"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def served(data: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on that store."""
    with ServerProcess("--data", str(data), "--no-auth", folder=tmp_path, command="serve") as running:
        yield running


def stored(data: Path) -> str:
    """All text of jobs and records."""
    with closing(sqlite3.connect(data / "tickwheel.db")) as database:
        rows = database.execute("SELECT spec FROM jobs UNION ALL SELECT body FROM records").fetchall()
    return "\n".join(row[0] for row in rows)


def first_line(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[0]


def make_job(url: str, *more: str) -> None:
    arguments = ("--in", "1h", "--endpoint", "https://example.com/hook", "--header", f"Authorization: {HEADER}")
    json_of(run_cli("jobs", "create", *arguments, *more, "--json", url=url))


@pytest.mark.slow
def test_the_life_of_a_secret_on_a_server(served: ServerProcess) -> None:
    made = run_cli("secrets", "create", "billing", url=served.url)
    value = made.stdout.splitlines()[0]
    assert value.startswith(SCHEME)
    assert "only time" in made.stderr
    make_job(served.url, "--sign-with", "billing")
    rotated = json_of(run_cli("secrets", "rotate", "billing", "--overlap", "2h", "--json", url=served.url))
    assert rotated["value"] != value
    assert [key["until"] is None for key in rotated["keys"]] == [True, False]
    listed = run_cli("secrets", "list", url=served.url).stdout
    assert rotated["keys"][0]["id"] in listed
    log = run_cli("audit-log", "--action", "secret.", "--json", url=served.url)
    assert [entry["action"] for entry in json_of(log)["entries"]] == ["secret.rotate", "secret.create"]
    assert run_cli("secrets", "delete", "billing", url=served.url).returncode == 0
    again = run_cli("secrets", "delete", "billing", url=served.url)
    assert again.returncode == ExitCode.NOT_FOUND
    told = listed + log.stdout + again.stderr + "".join(served.lines)
    for secret in (value, rotated["value"], HEADER):
        assert secret.removeprefix(SCHEME) not in told


@pytest.mark.slow
def test_a_store_in_use_points_to_its_server(call: Call, data: Path, served: ServerProcess) -> None:
    where = ("--data", str(data))
    listed = call("secrets", "list", *where)
    assert (listed.exit_code, "--url and --token" in listed.stderr) == (ExitCode.FAILED, True)
    resealed = call("secrets", "reseal", *where)
    assert (resealed.exit_code, "stop it" in resealed.stderr) == (ExitCode.FAILED, True)


def test_secrets_of_a_store_that_nobody_uses(call: Call, data: Path, tmp_path: Path) -> None:
    where = ("--data", str(data))
    first_line(call("secrets", "create", "other", "--tenant", "shop", *where))
    assert "There is no signing secret" in call("secrets", "list", *where).stderr
    value = first_line(call("secrets", "create", "default", *where))
    mine = tmp_path / "mine"
    mine.write_text(f"{OWN}\n")
    assert (
        first_line(call("secrets", "create", "default", "--tenant", "shop", "--value-from", mine, *where)) == OWN
    )
    listed = call("secrets", "list", "--json", *where)
    assert [one["tenant_id"] for one in json.loads(listed.stdout)["secrets"]] == ["default"]
    assert "value" not in listed.stdout
    renewed = call("secrets", "rotate", "default", "--value-from", "-", "--overlap", "0", *where, stdin=OWN)
    assert first_line(renewed) == OWN
    assert "old key" not in renewed.stdout
    for secret in (value, OWN):
        assert secret.removeprefix(SCHEME) not in stored(data)
    assert call("secrets", "delete", "default", *where).exit_code == 0
    assert call("secrets", "rotate", "default", *where).exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("delete", "../tokens/abc"), "must be letters, digits"),
        (("rotate", ".."), "must be letters, digits"),
        (("create", "a/b"), "name: must be letters"),
        (("rotate", "a", "--overlap", "31d"), "more than 30 days"),
        (("create", "a", "--tenant", "a\x01b"), "tenant_id"),
        (("create", "a", "--secrets-key", "x:abc"), "--secrets-key: a key"),
        (("keygen", "--id", "a b"), "--id: the id of a key"),
        (("reseal", "--store", "memory:"), "memory: can't be looked into"),
    ],
)
def test_what_is_wrong_is_told(call: Call, data: Path, arguments: tuple[str, ...], complaint: str) -> None:
    where = () if arguments[0] in ("keygen", "reseal") else ("--data", str(data))
    first_line(call("secrets", "create", "other", "--data", str(data)))
    result = call("secrets", *arguments, *where)
    assert (result.exit_code, complaint in result.stderr) == (ExitCode.USAGE, True), result.stderr


def test_resealing_makes_no_store_where_there_is_none(call: Call, data: Path) -> None:
    for where in (("--data", str(data)), ("--store", f"sqlite:{data}")):
        result = call("secrets", "reseal", *where)
        assert (result.exit_code, result.stderr) == (
            ExitCode.USAGE,
            f"Error: data: there is no database in {data}; --data names the folder of one\n",
        )
    assert not data.exists()


def test_a_value_that_is_none_is_refused_and_not_quoted(call: Call, data: Path) -> None:
    result = call("secrets", "create", "a", "--value-from", "-", "--data", str(data), stdin="whsec_c2hvcnQ=")
    assert (result.exit_code, "c2hvcnQ" in result.output) == (ExitCode.USAGE, False)


def test_a_token_in_the_environment_means_the_server(call: Call) -> None:
    result = call("secrets", "list", TICKWHEEL_TOKEN="tw_x", TICKWHEEL_URL="http://127.0.0.1:9")
    assert result.exit_code == ExitCode.UNREACHABLE


def test_keygen_prints_a_key_that_is_never_the_same(call: Call) -> None:
    lines = {first_line(call("secrets", "keygen", "--id", "2026-01")) for _ in range(2)}
    assert len(lines) == 2
    assert {parse_secret_key(line).id for line in lines} == {"2026-01"}
    told = json.loads(call("secrets", "keygen", "--json").stdout)
    assert parse_secret_key(told["key"]).id == told["id"]


@pytest.mark.slow
def test_a_key_is_changed_and_the_old_one_thrown_away(data: Path, tmp_path: Path) -> None:
    """The whole procedure: a key of one's own for the one in the folder, with a server before and after."""
    with ServerProcess("--data", str(data), "--no-auth", folder=tmp_path, command="serve") as before:
        make_job(before.url)
        value = run_cli("secrets", "create", "billing", url=before.url).stdout.splitlines()[0]
        before.terminate()
        assert before.exit_code() == 0
    keys = tmp_path / "secrets.keys"
    keys.write_text(run_cli("secrets", "keygen", "--id", "mine").stdout)
    keys.chmod(stat.S_IRUSR | stat.S_IWUSR)
    where = ("--data", str(data), "--secrets-key-file", str(keys))
    assert "tw-sealed:mine:" not in stored(data)
    done = json_of(run_cli("secrets", "reseal", *where, "--json"))
    assert done == {
        "ok": True,
        "jobs_looked_at": 1,
        "jobs_sealed_anew": 1,
        "signing_secrets_sealed_anew": 1,
        "left_as_they_were": 0,
        "left": [],
    }
    assert stored(data).count("tw-sealed:") == stored(data).count("tw-sealed:mine:") == 2
    (data / "secrets.key").unlink()
    again = json_of(run_cli("secrets", "reseal", *where, "--json"))
    assert (again["jobs_sealed_anew"], again["signing_secrets_sealed_anew"]) == (0, 0)
    with ServerProcess(*where, "--no-auth", folder=tmp_path, command="serve") as after:
        log = json_of(run_cli("audit-log", "--action", "secret.reseal", "--json", url=after.url))
        assert {entry["subject"] for entry in log["entries"]} == {"1 jobs", "signing_secret:billing"}
        assert value.removeprefix(SCHEME) not in json.dumps(log) + stored(data)
    keys.write_text(run_cli("secrets", "keygen", "--id", "other").stdout)
    lost = run_cli("secrets", "reseal", *where)
    assert lost.returncode == ExitCode.FAILED
    assert "left as they were            2" in lost.stdout
    assert lost.stdout.count("sealed under the key 'mine', which is not known (known here: other)") == 2
    assert stored(data).count("tw-sealed:mine:") == 2
