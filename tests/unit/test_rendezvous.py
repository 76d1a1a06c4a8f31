from collections import Counter

import numpy as np
import pytest

from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.rendezvous import top_ranked, weights


def owners(names: list[str]) -> list[str]:
    ranked = top_ranked(names)
    assert ranked is not None
    return ranked


def random_names(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"host-{rng.bytes(6).hex()}.1" for _ in range(count)]


def test_nobody_owns_when_nobody_lives() -> None:
    assert top_ranked([]) is None


def test_one_node_owns_everything() -> None:
    assert set(owners(["a"])) == {"a"}


def test_everybody_computes_the_same_whatever_order_the_members_come_in() -> None:
    names = random_names(7, 1)
    assert owners(names) == owners(names[::-1]) == owners(names + names[:2])


def test_the_ranking_never_changes_between_releases() -> None:
    """Old and new nodes run side by side in an upgrade and must agree."""
    assert [int(weight) for weight in weights("node-a.1", 3)] == [
        14715084480591658251,
        12617421870228381574,
        2198270716067437654,
    ]


@pytest.mark.parametrize("count", [2, 3, 5, 8, 16])
def test_shards_are_spread_evenly(count: int) -> None:
    """Chi square over 40 clusters: each node's share is that of a fair draw, no worse."""
    clusters = 40
    total = 0.0
    for seed in range(clusters):
        names = random_names(count, seed)
        shares = Counter(owners(names))
        expected = SHARD_COUNT / count
        total += sum((shares[name] - expected) ** 2 / expected for name in names)
    freedom = clusters * (count - 1)
    assert total < freedom + 4 * (2 * freedom) ** 0.5


def test_names_that_differ_in_one_character_are_spread_evenly_too() -> None:
    names = [f"node-{number}" for number in range(4)]
    assert all(40 < share < 90 for share in Counter(owners(names)).values())


def test_a_death_moves_only_the_shards_of_the_dead() -> None:
    names = random_names(5, 3)
    before, after = owners(names), owners(names[1:])
    moved = [old for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {names[0]}
    heirs = Counter(new for old, new in zip(before, after, strict=True) if old == names[0])
    assert set(heirs) == set(names[1:])


def test_a_newcomer_takes_from_all_and_moves_nothing_else() -> None:
    names = random_names(4, 4)
    before, after = owners(names), owners([*names, "new"])
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {"new"}
    assert {old for old, _ in moved} == set(names)
