"""A short crash test; the long one is `make chaos`."""

from pathlib import Path

import pytest

from .crash.scenario import crash_test


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.pitfall(29)
@pytest.mark.pitfall(34)
@pytest.mark.pitfall(91)
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_under_load(tmp_path: Path) -> None:
    verdict = crash_test(tmp_path, jobs=400, kills=5, seconds=10, seed=3, tell=lambda line: None)
    assert verdict.clean, str(verdict)
    assert verdict.runs >= 300
    assert verdict.repeated > 0, "no kill met a run in flight: the test proved nothing"
