"""What `import tickwheel` gives, and what it costs."""

import subprocess
import sys

import pytest

import tickwheel

HEAVY = ("apsw", "pycurl", "starlette", "uvicorn", "numpy", "click", "structlog", "prometheus_client", "asyncio")


def test_all_is_sorted_and_complete() -> None:
    assert tickwheel.__all__ == sorted(tickwheel.__all__)
    assert set(tickwheel._MODULE_OF) | {"handler"} == set(tickwheel.__all__)
    assert dir(tickwheel) == tickwheel.__all__


@pytest.mark.parametrize("name", tickwheel.__all__)
def test_every_name_can_be_had(name: str) -> None:
    value = getattr(tickwheel, name)
    assert value is getattr(tickwheel, name), "looked up once"
    assert value.__doc__, "explained"


def test_every_error_of_the_tree_is_public_and_has_its_own_code() -> None:
    from tickwheel.interfaces.client import errors

    def below(kind: type[tickwheel.TickwheelError]) -> set[type[tickwheel.TickwheelError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    assert errors.WaitTimedOut in below(tickwheel.TickwheelError)
    raised_here = {tickwheel.TickwheelError.__module__, errors.__name__}
    kinds = [kind for kind in below(tickwheel.TickwheelError) if kind.__module__ in raised_here]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    internal = {"ConfigError"}
    assert {kind.__name__ for kind in kinds} - internal <= set(tickwheel.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        tickwheel.nonsense  # noqa: B018 - that it fails is the point


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_no_driver() -> None:
    run(f"import sys, tickwheel; found = [m for m in {HEAVY!r} if m in sys.modules]; assert not found, found")


def test_client_loads_what_it_needs_and_no_more() -> None:
    rest = [name for name in HEAVY if name != "pycurl"]
    run(
        "import sys; from tickwheel import Client; Client()\n"
        f"found = [m for m in {rest!r} if m in sys.modules]; assert not found, found"
    )


def test_handlers_load_no_network_library_and_no_database() -> None:
    rest = [name for name in HEAVY if name not in ("numpy", "asyncio")]
    run(
        "import sys; from tickwheel import handler, Retry, Fail, Snooze\n"
        "@handler('x')\ndef x(payload): pass\n"
        f"found = [m for m in {rest!r} if m in sys.modules]; assert not found, found"
    )
