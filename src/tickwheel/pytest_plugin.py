"""Fixtures of pytest for testing jobs and handlers; found through an entry point wherever Tickwheel is installed.

Nothing of the scheduler is imported before a test asks for it.
"""

import inspect
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tickwheel.adapters.handlers.registry import Handlers
    from tickwheel.testing.workbench import BlockingWorkbench, Workbench


@pytest.fixture
def tickwheel_handlers() -> "Handlers | None":
    """Override it to give the handlers of a `Handlers` object of yours; None: those of `tickwheel.handler`."""
    return None


@pytest.fixture
def tickwheel_start() -> datetime | None:
    """Override it to begin at another instant."""
    return None


@pytest.fixture
def tickwheel(
    request: pytest.FixtureRequest, tickwheel_handlers: "Handlers | None", tickwheel_start: datetime | None
) -> "Iterator[Workbench | BlockingWorkbench]":
    """A scheduler in memory on a virtual clock: await its methods in an async test, else just call them."""
    from tickwheel.testing.workbench import BlockingWorkbench, Workbench

    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield Workbench(handlers=tickwheel_handlers, start=tickwheel_start)
        return
    bench = BlockingWorkbench(handlers=tickwheel_handlers, start=tickwheel_start)
    yield bench
    bench.close()
