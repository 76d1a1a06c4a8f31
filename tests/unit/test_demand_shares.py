"""Who is modest beside whom."""

from tickwheel.domain.demand_shares import HALF_MS, MOST_TENANTS, DemandShares


def test_small_tenants_are_modest_beside_a_large_one() -> None:
    shares = DemandShares()
    shares.note({"big": 10_000, **{f"small-{n}": 10 for n in range(9)}}, 0)
    assert not shares.is_modest(["big"])
    assert shares.is_modest(["small-3"])
    assert not shares.is_modest(["small-3", "big"])
    assert shares.is_modest(["new"])


def test_equals_and_whoever_is_alone_are_not_modest() -> None:
    shares = DemandShares()
    shares.note({"a": 50}, 0)
    assert not shares.is_modest(["a"])
    shares.note({"b": 50}, 0)
    assert not shares.is_modest(["a"])
    assert not shares.is_modest(["b"])


def test_demand_is_forgotten() -> None:
    shares = DemandShares()
    shares.note({"a": 1_000, "b": 10}, 0)
    shares.note({"b": 100}, 10 * HALF_MS)
    assert shares.is_modest(["a"])
    assert not shares.is_modest(["b"])


def test_memory_is_bounded_however_many_tenants_ask() -> None:
    shares = DemandShares()
    for number in range(3 * MOST_TENANTS):
        shares.note({f"t{number}": 1}, 0)
    assert len(shares._counts) <= MOST_TENANTS + 1
