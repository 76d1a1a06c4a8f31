"""A bucket gives its burst and then its rate, lets large things go into debt, and can be shared by nodes."""

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.token_bucket import TokenBucket


def test_burst_goes_at_once_and_then_the_rate() -> None:
    bucket = TokenBucket(10, 3, now_ms=0)
    assert [bucket.take(1, 0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_ms(1, 0) == 100
    assert not bucket.take(1, 99)
    assert bucket.take(1, 100)


def test_what_is_larger_than_the_burst_goes_when_it_is_full_and_is_paid_for() -> None:
    bucket = TokenBucket(100, 100, now_ms=0)
    assert bucket.take(250, 0)
    assert bucket.wait_ms(1, 0) == 1_510
    assert not bucket.take(1, 1_500)
    assert bucket.take(1, 1_510)
    assert bucket.wait_ms(250, 1_510) == 1_000


def test_what_was_not_used_comes_back_and_never_more_than_the_burst() -> None:
    bucket = TokenBucket(1, 5, now_ms=0)
    assert bucket.take(5, 0)
    bucket.give_back(2)
    assert [bucket.take(1, 0) for _ in range(3)] == [True, True, False]
    bucket.give_back(50)
    assert bucket.is_full(0)
    assert bucket.take(5, 0)
    assert not bucket.take(1, 0)


def test_nodes_share_a_limit_evenly_and_each_may_do_something() -> None:
    nodes = [TokenBucket(6, 6, now_ms=0, parts=3) for _ in range(3)]
    counts = [sum(node.take(1, at_ms) for at_ms in range(0, 10_000, 10)) for node in nodes]
    assert counts == [21, 21, 21]  # a burst of 2 and 2 a second, of 6 and 6 in all
    small = TokenBucket(1, 1, now_ms=0, parts=4)
    assert small.take(1, 0)
    assert not small.take(1, 3_999)
    assert small.take(1, 4_000)


def test_a_share_that_shrinks_takes_the_surplus_away() -> None:
    bucket = TokenBucket(10, 10, now_ms=0)
    bucket.share(5)
    assert [bucket.take(1, 0) for _ in range(3)] == [True, True, False]
    bucket.share(1)
    assert not bucket.take(1, 0)
    assert bucket.take(10, 1_000)


def test_a_clock_that_stands_still_gives_nothing() -> None:
    bucket = TokenBucket(1_000, 1, now_ms=500)
    assert bucket.take(1, 500)
    assert not bucket.take(1, 499)


@given(
    st.integers(1, 1_000),
    st.integers(1, 500),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(0, 700), st.integers(1, 5)), max_size=80),
)
def test_no_stretch_has_more_than_burst_and_rate(
    per_second: int, burst: int, parts: int, asks: list[tuple[int, int]]
) -> None:
    bucket, now_ms, taken = TokenBucket(per_second, burst, 0, parts), 0, list[tuple[int, int]]()
    for pause_ms, count in asks:
        now_ms += pause_ms
        if bucket.take(count, now_ms):
            taken.append((now_ms, count))
    most = max(1, burst / parts) + 4  # the last one may have gone into debt
    for first, (from_ms, _) in enumerate(taken):
        total = 0
        for until_ms, count in taken[first:]:
            total += count
            assert total <= most + max(0.001, per_second / parts) * (until_ms - from_ms) / 1_000 + 0.01
