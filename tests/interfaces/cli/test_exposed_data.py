"""A data folder that others may look into is told, by the server and by `tickwheel doctor`."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from .server_process import ServerProcess


def told_by_doctor(call: Callable[..., Result], folder: Path) -> list[dict[str, str]]:
    result = call("doctor", "--json", "--data", str(folder), "--port", "0")
    return [check for check in json.loads(result.stdout)["checks"] if check["name"] == "permissions"]


def test_an_open_folder_is_told_with_the_remedy(call: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "the data"
    folder.mkdir()
    folder.chmod(0o755)
    with ServerProcess("--data", str(folder), folder=tmp_path) as server:
        line = server.wait_for_line("store.unsafe")
        assert f"{folder} (0755)" in line
        assert f"chmod -R go= '{folder}'" in line
    (found,) = told_by_doctor(call, folder)
    assert found["level"] == "warn"
    assert "(0755)" in found["text"]
    assert "tickwheel.db" not in found["text"], "what the server made is its own"
    folder.chmod(0o700)
    assert told_by_doctor(call, folder) == []


def test_of_a_new_folder_there_is_nothing_to_tell(call: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ServerProcess("--data", str(folder), folder=tmp_path) as server:
        server.wait_for_line("One line per run")
        assert not [line for line in server.lines if "store.unsafe" in line]
    assert told_by_doctor(call, folder) == []
