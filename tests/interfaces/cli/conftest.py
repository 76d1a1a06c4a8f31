"""One server for all tests that only need some server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwheel.interfaces.cli.main import cli

from .server_process import ServerProcess, with_handlers


@pytest.fixture(scope="session")
def handlers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module `handlers_of_tests`."""
    return with_handlers(tmp_path_factory.mktemp("handlers"))


@pytest.fixture(scope="session")
def server(handlers_folder: Path) -> Iterator[ServerProcess]:
    """`tickwheel dev` on a store in memory, with the handlers of the tests."""
    with ServerProcess("--store", "memory:", "--app", "handlers_of_tests", folder=handlers_folder) as running:
        yield running


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Calls the command line in this process; with `server`, the commands talk to it."""
    for name in ("URL", "TOKEN", "CONFIG", "HOST", "PORT", "DATA", "STORE", "APP"):
        monkeypatch.delenv(f"TICKWHEEL_{name}", raising=False)
    if "server" in request.fixturenames:
        monkeypatch.setenv("TICKWHEEL_URL", request.getfixturevalue("server").url)

    def invoke(*arguments: str, stdin: str | bytes = "", **environment: Any) -> Result:
        return CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)

    return invoke
