"""A secret that the worlds of tests give to the targets of their jobs, and the watch that nothing tells it.

`watch` is asked about each answer of the API and about what processes printed. Of a test in this process pytest
knows what was printed and logged: `pytest_runtest_makereport`, which `conftest.py` takes over, looks through that.
"""

from collections.abc import Generator
from typing import Any, Final

import pytest

PLANTED: Final = "planted-in-every-world-5d02e7b1"
SECRET_HEADERS: Final = {"Authorization": f"Bearer {PLANTED}"}
"""What a world's jobs send unless a test says otherwise."""
_BYTES: Final = PLANTED.encode()


def watch(told: str | bytes, place: str) -> None:
    """Fail if the secret was told there."""
    assert (_BYTES if isinstance(told, bytes) else PLANTED) not in told, f"a header's value was told: {place}"  # type: ignore[operator]  # both are text, or both bytes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, pytest.TestReport]:
    """A test that passed fails if the secret is in what it printed or logged."""
    report: pytest.TestReport = yield
    if report.passed:
        for place, text in report.sections:
            if PLANTED in text:
                report.outcome = "failed"
                report.longrepr = f"a header's value was told: {place}"
    return report
