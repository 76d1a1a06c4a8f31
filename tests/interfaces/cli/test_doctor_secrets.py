"""What `tickwheel doctor` says of the keys that stored secrets are sealed under."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tickwheel.adapters.vault.key_sources import KEY_FILE_NAME
from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.wiring import make_key_line

Call = Callable[..., Result]
AWAY = ("--store", "postgresql://app@127.0.0.1:1/jobs", "--port", "0")


def secrets(call: Call, *arguments: str, **environment: str) -> dict[str, Any]:
    """The one finding about them."""
    result = call("doctor", "--json", *arguments, **environment)
    [found] = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "secrets"]
    return dict(found)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"{make_key_line('new')}\n{make_key_line('old')}\n")
    path.chmod(0o600)
    return path


def test_a_shared_store_without_a_key_is_unwise(call: Call) -> None:
    found = secrets(call, *AWAY)
    assert (found["level"], "in the clear" in found["text"]) == ("warn", True)
    assert "secrets keygen" in found["remedy"]


def test_keys_of_a_shared_store_are_named(call: Call, key_file: Path) -> None:
    found = secrets(call, *AWAY, "--secrets-key-file", str(key_file))
    assert (found["level"], found["text"]) == ("ok", "sealed under the key new; old still open")
    by_variable = secrets(call, *AWAY, TICKWHEEL_SECRETS_KEY=make_key_line("one"))
    assert (by_variable["level"], by_variable["text"]) == ("ok", "sealed under the key one")


def test_a_file_that_others_may_read_fails(call: Call, key_file: Path) -> None:
    key_file.chmod(0o640)
    found = secrets(call, *AWAY, "--secrets-key-file", str(key_file))
    assert (found["level"], "can be read by others (mode 0640)" in found["text"]) == ("fail", True)


def test_a_command_that_brings_no_key_fails(call: Call) -> None:
    found = secrets(call, *AWAY, "--secrets-key-command", "false")
    assert (found["level"], "'false' exited with 1" in found["text"]) == ("fail", True)


def test_an_embedded_store_has_its_own(call: Call, tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "data"), "--port", "0")
    first = secrets(call, *where)
    assert (first["level"], "the first start makes a key" in first["text"]) == ("ok", True)
    assert not (tmp_path / "data").exists()
    assert call("secrets", "create", "default", *where[:2]).exit_code == ExitCode.OK
    found = secrets(call, *where)
    assert (found["level"], found["text"].startswith("sealed under the key k")) == ("ok", True)
    assert "Keep a copy" in found["remedy"]
    (tmp_path / "data" / KEY_FILE_NAME).chmod(0o644)
    exposed = secrets(call, *where)
    assert (exposed["level"], "can be read by others" in exposed["text"]) == ("fail", True)
    (tmp_path / "data" / KEY_FILE_NAME).unlink()
    lost = secrets(call, *where)
    assert (lost["level"], "a database and no key" in lost["text"]) == ("warn", True)
