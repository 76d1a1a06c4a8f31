"""Fencing tokens rise per shard, over batches and owners."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.tokens import SEQUENCE_LIMIT, Tokens


def ids(shards: list[int]) -> np.ndarray:
    raw = [
        make_job_id(created_ms=1, shard=s, due_ms=None, random48=n.to_bytes(6, "big"))
        for n, s in enumerate(shards)
    ]
    return np.frombuffer(b"".join(raw), dtype="V16")


shard_batches = st.lists(st.lists(st.integers(0, SHARD_COUNT - 1), min_size=1, max_size=60), max_size=8)


@given(shard_batches)
def test_tokens_of_a_shard_rise_one_by_one_in_batch_order(batches: list[list[int]]) -> None:
    tokens = Tokens(Holdings(np.arange(SHARD_COUNT, dtype=np.int64) + 7))
    seen: dict[int, list[int]] = {}
    for shards in batches:
        for shard, token in zip(shards, tokens.draw(ids(shards)).tolist(), strict=True):
            seen.setdefault(shard, []).append(token)
    for shard, drawn in seen.items():
        first = (shard + 7 << 32) + 1
        assert drawn == list(range(first, first + len(drawn)))


def test_a_later_epoch_is_above_everything_drawn_before() -> None:
    batch = ids([3] * 100)
    holdings = Holdings(np.full(SHARD_COUNT, 5, dtype=np.int64))
    tokens = Tokens(holdings)
    old = tokens.draw(batch)
    holdings.adopt(3, 6)
    new = tokens.draw(batch)
    assert new.min() > old.max()
    assert new[0] == (6 << 32) + 1


def test_tokens_rise_above_one_that_the_row_shows() -> None:
    """D4: nobody but a claim writes a token; where it happened all the same, the next one is higher."""
    batch = ids([3])
    tokens = Tokens(Holdings(np.full(SHARD_COUNT, 5, dtype=np.int64)))
    tokens.rise_above(batch, np.array([(5 << 32) + 70]))
    tokens.rise_above(batch, np.array([(9 << 32) + 5_000]))
    assert tokens.draw(batch)[0] == (5 << 32) + 71


def test_an_epoch_is_used_up_long_before_its_tokens_run_into_the_next() -> None:
    tokens = Tokens(Holdings(np.ones(SHARD_COUNT, dtype=np.int64)))
    tokens.draw(ids([9]))
    tokens._drawn[9] = SEQUENCE_LIMIT - 1
    before = tokens.exhausted()
    last = tokens.draw(ids([9]))
    assert (before, tokens.exhausted()) == ([], [9])
    assert last[0] < 2 << 32
