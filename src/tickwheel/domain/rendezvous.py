"""Which node should own which shard, agreed on without a word: rendezvous hashing (highest random weight).

Each pair (shard, node) has a weight that everybody computes alike; a shard belongs to the live node with the
greatest. Nobody assigns, and nothing is stored. Example: nodes a, b and c own about 85 of 256 shards each. When c
dies, only its shards move, half of them to a and half to b, because the order of a and b in every other shard
stays what it was. When d joins, it takes a quarter of each node's shards, and nothing moves between the others.

A ring of hashed points would need hundreds of points per node to be as even, and `hash(shard) % nodes` would move
nearly everything at each change.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.ids import SHARD_COUNT

Weights = npt.NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_FIRST: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
_SECOND: Final = np.uint64(0x94D0_49BB_1331_11EB)


def top_ranked(candidates: Iterable[str], shard_count: int = SHARD_COUNT) -> list[str] | None:
    """The candidate of the greatest weight for each shard; None when there is no candidate."""
    names = sorted(set(candidates))  # the order decides equal weights, so it must not depend on who asks
    if not names:
        return None
    winners = np.argmax(np.stack([weights(name, shard_count) for name in names]), axis=0)
    return [names[number] for number in winners.tolist()]


def weights(name: str, shard_count: int = SHARD_COUNT) -> Weights:
    """The weight of that node for each shard."""
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    shards = np.arange(1, shard_count + 1, dtype=np.uint64)
    return _mix(_mix(shards * _GOLDEN) ^ np.uint64(seed))


def _mix(values: Weights) -> Weights:
    """The finalizer of splitmix64: each input bit changes each output bit with a probability of a half."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
