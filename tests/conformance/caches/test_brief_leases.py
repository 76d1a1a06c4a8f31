"""Whoever comes first has it, until it lets go or the time is over."""

import time

import pytest

from ...servers.waiting import POLL_S
from .conftest import Two, hints


async def test_the_first_has_it_and_may_ask_again(leases: Two) -> None:
    assert (await leases.a.acquire(hints(3), 60_000)).all()
    assert (await leases.a.acquire(hints(3), 60_000)).all()
    assert (await leases.b.acquire(hints(5), 60_000)).tolist() == [False] * 3 + [True] * 2


async def test_another_token_is_another_hint(leases: Two) -> None:
    assert (await leases.a.acquire(hints(2), 60_000)).all()
    assert (await leases.b.acquire(hints(2, fence=2), 60_000)).all()


async def test_only_the_holder_lets_go(leases: Two) -> None:
    await leases.a.acquire(hints(2), 60_000)
    await leases.b.release(hints(2))
    assert not (await leases.b.acquire(hints(2), 60_000)).any()
    await leases.a.release(hints(1))
    assert (await leases.b.acquire(hints(2), 60_000)).tolist() == [True, False]


async def test_it_ends_by_itself(leases: Two) -> None:
    await leases.a.acquire(hints(1), 30)
    deadline = time.monotonic() + 10
    while not (await leases.b.acquire(hints(1), 60_000)).all():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


async def test_none_is_fine(leases: Two) -> None:
    assert (await leases.a.acquire(hints(0), 60_000)).tolist() == []
    await leases.a.release(hints(0))


@pytest.mark.parametrize("count", [1, 64])
async def test_answers_are_in_the_order_of_the_hints(leases: Two, count: int) -> None:
    await leases.a.acquire(hints(count)[::2], 60_000)
    assert (await leases.b.acquire(hints(count), 60_000)).tolist() == [n % 2 == 1 for n in range(count)]
