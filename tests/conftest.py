"""Runs coroutine tests and async fixtures, each test on an idle-aware loop of its own.

A test that leaves asyncio work behind fails: what it started would run into the next one.

Property tests take a share of the examples of hypothesis's profile. The profile `quick` is for every day: few
examples, and a failing one is shown as it was found, because shrinking takes minutes where an example is a whole
history. The failing example is kept, so `make test ARGS='--hypothesis-profile=long --timeout=0 -k name'` begins
with it and shrinks it. `long` also searches thirty times as far.
"""

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

from tickwheel.adapters.redis.wire import READER_NAME
from tickwheel.testing.idle_loop import IdleLoop, until_idle

from .planted import pytest_runtest_makereport as pytest_runtest_makereport
from .servers.etcd import NoEtcd, stop_shared_etcd
from .servers.memory import memory_folder
from .servers.postgresql import PostgresServer
from .servers.postgresql_binaries import NoPostgres
from .servers.postgresql_databases import blank_database, shared_server, stop_shared_server
from .servers.redis import NoRedis, stop_shared_redis

FAULT_SUITES = {
    "postgresql_faults",
    "coordinator_faults",
    "redis_faults",
    "test_chaos.py",
    "test_rolling_upgrade.py",
}
"""Folders and files of tests that break real servers for minutes: `make test-faults`."""
# A busy machine makes any example slow: no deadline, and no complaint about how long examples take to make.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile(
    "quick", _PATIENT, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate], print_blob=True
)
settings.register_profile("long", _PATIENT, max_examples=3_000)
settings.load_profile("quick")
if memory_folder() and not os.environ.get("TESTS_LONG"):  # the long forms write more than fits in memory
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_folder()))  # where `tmp_path` is made


@pytest.fixture(autouse=True)
def _own_log_settings() -> Iterator[None]:
    """A test that sets up logs (any command does) sets them for itself, not for the tests after it."""
    handlers = logging.getLogger().handlers
    before = list(handlers)
    yield
    structlog.reset_defaults()
    for handler in handlers[:]:
        if handler not in before and not type(handler).__module__.startswith("_pytest"):
            handlers.remove(handler)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Where the test's coroutines and async fixtures run."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        yield runner
        left = asyncio.all_tasks(runner.get_loop())
    assert not left, f"fixtures left asyncio work behind: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let a fixture be an async generator."""
    original = fixturedef.func
    if not inspect.isasyncgenfunction(original):
        return (yield)
    runner = request.getfixturevalue("runner")

    def drive(*args: Any, **kwargs: Any) -> Iterator[Any]:
        generator = original(*args, **kwargs)

        async def step() -> Any:
            return await anext(generator, None)

        yield runner.run(step())
        runner.run(step())

    fixturedef.func = drive  # type: ignore[misc]  # pytest has no other way to wrap a fixture
    try:
        return (yield)
    finally:
        fixturedef.func = original  # type: ignore[misc]  # as above


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test to its end."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(_check_leaks(test, arguments))
    return True


@pytest.fixture
def postgresql() -> PostgresServer:
    """The server that the tests of this process share; a test that breaks servers starts its own."""
    return shared_server()


@pytest.fixture
def blank_postgresql(postgresql: PostgresServer) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    name = blank_database()
    yield postgresql.url(name)
    postgresql.drop_database(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """A test that needs PostgreSQL, etcd or Redis where there is none is skipped."""
    return (yield from _skipping_without_servers())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same for tests that start a server themselves."""
    return (yield from _skipping_without_servers())


def _skipping_without_servers() -> Generator[None, None, None]:
    try:
        return (yield)
    except (NoPostgres, NoEtcd, NoRedis) as error:
        pytest.skip(str(error))


def pytest_sessionfinish() -> None:
    """End what the tests of this process shared."""
    stop_shared_server()
    stop_shared_etcd()
    stop_shared_redis()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for all the tests that were skipped for want of a server."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for server in ("PostgreSQL", "etcd", "Redis"):
        count = sum(f"no {server}" in reason for reason in reasons)
        if count:
            terminalreporter.write_line(
                f"SKIPPED {count} tests of {server}: none here, and it may not be installed"
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coroutine tests get a loop without asking for one; suites that break real servers are marked as such."""
    for item in items:
        if item.path.parent.name in FAULT_SUITES or item.path.name in FAULT_SUITES:
            item.add_marker(pytest.mark.faults)
        if (
            isinstance(item, pytest.Function)
            and inspect.iscoroutinefunction(item.obj)
            and "runner" not in item.fixturenames
        ):
            item.fixturenames.insert(0, "runner")


async def _check_leaks(test: Callable[..., Coroutine[Any, Any, None]], arguments: dict[str, Any]) -> None:
    """Readers of Redis connections are left to the fixture that closes them; `runner` looks whether it did."""
    before = asyncio.all_tasks()
    await test(**arguments)
    if asyncio.all_tasks() - before:
        await until_idle()  # what was cancelled as the last act ends now
    left = {task for task in asyncio.all_tasks() - before if task.get_name() != READER_NAME}
    assert not left, f"the test left asyncio work behind: {left}"
