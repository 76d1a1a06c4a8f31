"""Makes claims small and their overlap usual, as otherwise only thousands of due timers do.

with small_claims():
    ...                          # three timers a claim; with two more waiting, the next is prepared meanwhile
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tickwheel.services import claim_preparation, claims


@contextmanager
def small_claims() -> Iterator[None]:
    """Until the block ends."""
    with patch.object(claim_preparation, "BATCH_TIMERS", 3), patch.object(claims, "AHEAD_TIMERS", 2):
        yield
