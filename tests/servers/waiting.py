"""Waiting for something that real processes do."""

import time
from collections.abc import Callable

POLL_S = 0.02


def wait_until(predicate: Callable[[], bool], timeout_s: float, why: str) -> None:
    """Return as soon as it holds; an `AssertionError` that says what was waited for, if it never does."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {why}"
        time.sleep(POLL_S)
