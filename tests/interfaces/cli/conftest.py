"""One server for all tests that only need some server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwheel.interfaces.cli.main import cli

from .server_process import ServerProcess

HANDLERS = """
import asyncio
import time

from tickwheel import Fail, handler


@handler("work")
async def work(payload, ctx):
    pass


@handler("broken")
async def broken(payload, ctx):
    raise Fail("it is broken")


@handler("evil")
async def evil(payload, ctx):
    raise Fail("\x1b[2Jcleared")


@handler("nap")
async def nap(payload, ctx):
    await asyncio.sleep(payload)


@handler("deaf")
async def deaf(payload, ctx):
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass


@handler("blocking")
async def blocking(payload, ctx):
    print("blocking has begun", flush=True)
    time.sleep(120)


@handler("stuck_thread")
def stuck_thread(payload, ctx):
    time.sleep(120)
"""


@pytest.fixture(scope="session")
def handlers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module `handlers_of_tests`."""
    folder = tmp_path_factory.mktemp("handlers")
    (folder / "handlers_of_tests.py").write_text(HANDLERS)
    return folder


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
