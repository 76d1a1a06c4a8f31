"""The browser and the servers of these tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..interfaces.cli.server_process import ServerProcess

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (it comes with `make test`)")

from playwright.sync_api import Browser

from .browsing import Visit, opened_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A `tickwheel dev` for the tests of a module: each makes jobs of its own."""
    folder: Path = tmp_path_factory.mktemp("dashboard")
    with ServerProcess("--data", str(folder / "data"), folder=folder) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, server: ServerProcess) -> Iterator[Callable[..., Visit]]:
    """Open a tab; `url` for another server than the module's."""
    visits: list[Visit] = []

    def visiting(url: str = "", **options: object) -> Visit:
        visits.append(Visit(browser, url or server.url, **options))  # type: ignore[arg-type]
        return visits[-1]

    yield visiting
    for one in visits:
        one.close()
