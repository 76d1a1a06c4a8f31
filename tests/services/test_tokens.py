"""Fencing tokens rise per shard, over batches and owners."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.ids import SHARD_COUNT, make_job_id
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
    tokens = Tokens(np.arange(SHARD_COUNT, dtype=np.int64) + 7)
    seen: dict[int, list[int]] = {}
    for shards in batches:
        for shard, token in zip(shards, tokens.draw(ids(shards)).tolist(), strict=True):
            seen.setdefault(shard, []).append(token)
    for shard, drawn in seen.items():
        first = (shard + 7 << 32) + 1
        assert drawn == list(range(first, first + len(drawn)))


def test_a_later_epoch_is_above_everything_drawn_before() -> None:
    batch = ids([3] * 100)
    old = Tokens(np.full(SHARD_COUNT, 5, dtype=np.int64)).draw(batch)
    new = Tokens(np.full(SHARD_COUNT, 6, dtype=np.int64))
    assert new.draw(batch).min() > old.max()
    assert new.is_older(batch[0].tobytes(), int(old.max()))
    assert not new.is_older(batch[0].tobytes(), int(new.draw(batch).max()))


def test_an_epoch_is_used_up_long_before_its_tokens_run_into_the_next() -> None:
    tokens = Tokens(np.ones(SHARD_COUNT, dtype=np.int64))
    tokens._drawn[9] = SEQUENCE_LIMIT - 1
    before = tokens.exhausted
    last = tokens.draw(ids([9]))
    assert (before, tokens.exhausted) == (False, True)
    assert last[0] < 2 << 32
