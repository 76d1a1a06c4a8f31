"""Never more than burst + rate * t in any stretch, never less for whoever keeps asking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.rate import Gcra, RateLimit, parse_rate

LIMITS = st.builds(
    RateLimit,
    amount=st.integers(1, 5_000),
    period_ms=st.sampled_from([1_000, 60_000]),
    burst=st.integers(1, 200),
)


@given(LIMITS, st.lists(st.tuples(st.integers(0, 500), st.integers(0, 300)), max_size=60))
def test_no_stretch_has_more_than_burst_and_rate(limit: RateLimit, asks: list[tuple[int, int]]) -> None:
    account, now_ms, taken = Gcra(limit), 1_000, list[tuple[int, int]]()
    for pause_ms, wanted in asks:
        now_ms += pause_ms
        count = min(wanted, account.available(now_ms))
        account.take(count, now_ms)
        taken.append((now_ms, count))
    for first, (from_ms, _) in enumerate(taken):
        total = 0
        for until_ms, count in taken[first:]:
            total += count
            assert total <= limit.burst + limit.amount * (until_ms - from_ms) / limit.period_ms


@given(st.integers(1, 50_000), st.sampled_from("smh"), st.integers(0, 10**12))
def test_whoever_keeps_asking_gets_the_whole_rate(amount: int, unit: str, start_ms: int) -> None:
    limit = parse_rate(f"{amount}/{unit}")
    account, now_ms, total, steps = Gcra(limit), start_ms, 0, 0
    while steps < 50:
        count = account.available(now_ms)
        assert count > 0
        account.take(count, now_ms)
        total += count
        next_ms = account.next_ms(now_ms)
        assert next_ms > now_ms
        assert account.available(next_ms) > 0
        now_ms, steps = next_ms, steps + 1
    assert total >= limit.amount * (now_ms - start_ms) / limit.period_ms - 1


def test_burst_then_one_each_interval() -> None:
    account = Gcra(RateLimit(100, 1_000, 10))
    assert account.available(5_000) == 10
    account.take(10, 5_000)
    assert account.available(5_009) == 0
    assert account.next_ms(5_000) == 5_010
    assert account.available(5_010) == 1
    assert account.available(6_000) == 10


def test_share_of_a_node_and_its_return() -> None:
    account = Gcra(RateLimit(100, 1_000, 10))
    account.take_share(1 / 256, 0)
    account.take(1, 0)
    assert account.next_ms(0) == 2_560
    account.take_share(1.0, 100)
    assert account.available(210) >= 1  # what a small share ran ahead holds nothing back


def test_rates_are_read_and_nonsense_is_refused_with_a_remedy() -> None:
    assert parse_rate("100/s") == RateLimit(100, 1_000, 10)
    assert parse_rate("30/m") == RateLimit(30, 60_000, 1)
    assert parse_rate("5/h") == RateLimit(5, 3_600_000, 1)
    for text in ("", "0/s", "100", "1.5/s", "-3/s", "10/d", "9/s ", "²/s"):
        with pytest.raises(ValueError, match="100/s, 30/m or 5/h"):
            parse_rate(text)
    with pytest.raises(ValueError, match="limits nothing"):
        parse_rate("2000000/s")
