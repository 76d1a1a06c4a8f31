"""Three times what the server can take, for seconds (a minute with TESTS_LONG=1): only 429, and well again."""

import os
from pathlib import Path

import pytest

from tickwheel.interfaces.bench.overload import Plan, overload
from tickwheel.interfaces.bench.progress import progress

LONG = bool(os.environ.get("TESTS_LONG"))
PLAN = Plan(seconds=60, calm_seconds=10, factor=3, processes=1) if LONG else Plan(4, 2, 3, 1)
CACHE_MB = 300
"""What SQLite's page caches may grow by while they fill."""


@pytest.mark.timeout(300)
def test_flood_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with progress("flood", PLAN.steps, quiet=True) as bar:
        figures = overload(f"sqlite:{tmp_path / 'flood.db'}", tmp_path, PLAN, bar)
    print(figures)  # the long form is run for them
    # That nothing but success and 429 was answered, and that each accepted job ran once, it has checked itself.
    numbers = {name: float(value) for name, value in figures.items()}
    assert numbers["rss_end_mb"] < numbers["rss_begin_mb"] + CACHE_MB
    if LONG:
        assert numbers["refused"] > 0
        assert numbers["recovered_ms"] <= 5_000
