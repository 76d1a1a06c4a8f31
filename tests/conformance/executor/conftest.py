"""One suite for every executor: each test runs once per kind of target."""

import pytest

from .bench import Bench
from .factories import SUBJECTS


@pytest.fixture(params=sorted(SUBJECTS))
def bench(request: pytest.FixtureRequest) -> Bench:
    """An executor of each kind in turn; a test enters it, so that what it opens ends within the test."""
    return Bench(SUBJECTS[request.param])
