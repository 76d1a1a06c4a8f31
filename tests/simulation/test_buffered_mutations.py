"""Rules by which a buffer may be used are dropped in turn, and a story must notice.

Those that stories rarely meet have tests of their own: `services/test_filling.py` and
`services/ownership/test_buffered_shards.py`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tickwheel.domain.columns import Ints
from tickwheel.services.buffering.book import Book
from tickwheel.services.buffering.buffering import Buffering
from tickwheel.services.buffering.far_timers import FarTimers
from tickwheel.services.buffering.filling import Filling

from .buffered import tell_buffered

SEEDS = range(1_000, 1_012)
"""Most rules are missed by the first story already."""


def believe_what_comes() -> AbstractContextManager[Any]:
    return patch.object(Book, "agrees", lambda self, bucket, rows: True)


def put_nothing_that_is_committed_later() -> AbstractContextManager[Any]:
    return patch.object(FarTimers, "put", lambda self, timers: None)


def poll_no_further_than_the_wheel() -> AbstractContextManager[Any]:
    init = Buffering.__init__

    def short(self: Buffering, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.feed_ms = self.wheel_ms - 60_000

    return patch.object(Buffering, "__init__", short)


def read_before_the_range_is_raised() -> AbstractContextManager[Any]:
    read = Filling._read

    async def early(self: Filling, shards: Ints, from_ms: int, until_ms: int) -> None:
        far, reach = self._far, self._far.until_ms[shards].copy()
        far.until_ms[shards] = far.filled_ms[shards]
        try:
            await read(self, shards, from_ms, until_ms)
        finally:
            far.until_ms[shards] = np.maximum(reach, far.until_ms[shards])

    return patch.object(Filling, "_read", early)


MUTATIONS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (
    believe_what_comes,
    put_nothing_that_is_committed_later,
    poll_no_further_than_the_wheel,
    read_before_the_range_is_raised,
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_dropped_rule_is_noticed(mutation: Callable[[], AbstractContextManager[Any]]) -> None:
    with mutation():
        for seed in SEEDS:
            if any(str(violation).startswith("I1") for violation in tell_buffered(seed).rulebook.violations):
                return
    pytest.fail(f"none of {len(SEEDS)} stories noticed")
