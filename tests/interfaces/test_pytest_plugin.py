"""The plugin as users have it: in a pytest of its own, and the blocks of its page as their tests."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-jobs.md"
BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
RUNS_ASYNC_TESTS = """
import asyncio
import inspect


def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    command = (sys.executable, "-m", "pytest", "-q", "-p", "tickwheel.pytest_plugin", "-W", "error", *options)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def test_blocks_of_the_page_are_tests_that_pass(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert [name for name, _ in blocks] == ["app.py", "test_app.py", "test_async.py"]
    write(tmp_path, conftest=RUNS_ASYNC_TESTS, **{name.removesuffix(".py"): text for name, text in blocks})
    done = run_pytest(tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_failing_expectation_fails_the_test(tmp_path: Path) -> None:
    write(
        tmp_path,
        test_it="from tickwheel import handler\n"
        "@handler('it')\n"
        "def it(): return 1\n"
        "def test_it(tickwheel):\n"
        "    assert tickwheel.run('it').result == 2\n",
    )
    done = run_pytest(tmp_path)
    assert "1 failed" in done.stdout, done.stdout
    assert done.returncode == 1


def test_handlers_and_start_can_be_chosen(tmp_path: Path) -> None:
    write(
        tmp_path,
        test_it="from datetime import UTC, datetime\n"
        "import pytest\n"
        "from tickwheel import Handlers\n"
        "mine = Handlers()\n"
        "@mine.handler('it')\n"
        "def it(): return 1\n"
        "@pytest.fixture\n"
        "def tickwheel_handlers(): return mine\n"
        "@pytest.fixture\n"
        "def tickwheel_start(): return datetime(2030, 1, 1, tzinfo=UTC)\n"
        "def test_it(tickwheel):\n"
        "    assert tickwheel.now.year == 2030\n"
        "    assert tickwheel.run('it').scheduled_at == datetime(2030, 1, 1, tzinfo=UTC)\n"
        "    with pytest.raises(LookupError, match=\"no handler is named 'other'; registered here: it\"):\n"
        "        tickwheel.schedule(handler='other')\n",
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_nothing_is_loaded_before_a_test_asks(tmp_path: Path) -> None:
    write(
        tmp_path,
        test_it="import sys\n"
        "def test_it():\n"
        "    assert not {'numpy', 'apsw', 'tickwheel.testing'} & set(sys.modules)\n",
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_importing_the_package_does_not_import_pytest() -> None:
    look = "[getattr(tickwheel, name) for name in tickwheel.__all__]"
    program = f"import sys, tickwheel; {look}; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_pytest_finds_it_by_itself() -> None:
    found = [point for point in entry_points(group="pytest11") if point.value == "tickwheel.pytest_plugin"]
    if not found:
        pytest.skip("the package was installed before it had a plugin: make install")
    assert found[0].name == "tickwheel"
