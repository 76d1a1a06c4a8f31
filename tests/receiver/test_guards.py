"""What every guard promises, on every kind of connection that one takes."""

import random
from contextlib import AsyncExitStack

import pytest

from tickwheel.receiver import Answer, DeliveryInProgress, Reason, RefusedDelivery, StaleDelivery
from tickwheel.receiver.turns import KEPT_BODY_LIMIT_BYTES

from .places import Place
from .signing import delivery, run_id


async def deliver(place: Place, number: int, token: int, *, fails: bool = False) -> str:
    """What came of it, in a word."""
    try:
        async with place.once(delivery(number, token)) as first:
            if not first:
                return "replayed"
            await place.make(first, run_id(number))
            if fails:
                raise ZeroDivisionError
            return "made"
    except ZeroDivisionError:
        return "failed"
    except StaleDelivery:
        return "stale"


async def test_the_effect_of_a_run_happens_once_whatever_token_comes(place: Place) -> None:
    assert [await deliver(place, 1, token) for token in (5, 5, 6, 4, 2**53 - 1)] == ["made"] + ["replayed"] * 4
    assert await deliver(place, 2, 1) == "made", "another run"
    assert [place.effects(run_id(number)) for number in (1, 2, 3)] == [1, 1, 0]


async def test_a_failed_effect_is_undone_and_its_token_kept(place: Place) -> None:
    assert await deliver(place, 1, 5, fails=True) == "failed"
    assert place.effects(run_id(1)) == 0
    assert await deliver(place, 1, 4) == "stale", "a late older attempt has no effect after a newer one"
    assert await deliver(place, 1, 5, fails=True) == "failed", "sent again by a proxy"
    assert await deliver(place, 1, 6) == "made"
    assert await deliver(place, 1, 4) == "replayed", "what is recorded is a success for whoever asks"
    assert place.effects(run_id(1)) == 1


async def test_the_answer_is_recorded_with_the_effect(place: Place) -> None:
    for number, body, kept in ((1, b"\x00\xff ok", b"\x00\xff ok"), (2, b"x" * (KEPT_BODY_LIMIT_BYTES + 1), b"")):
        async with place.once(delivery(number)) as first:
            first.keep(Answer(201, body))
        async with place.once(delivery(number, 6)) as again:
            assert (bool(again), again.first) == (False, False)
            assert again.answer == Answer(201, kept, replayed=True)
            with pytest.raises(ValueError, match="recorded already"):
                again.keep(Answer())
    async with place.once(delivery(3)) as plain:
        pass
    assert plain.answer == Answer(200, b"")


async def test_an_answer_that_is_no_success_is_not_kept(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError, match="no success"))
        first = await stack.enter_async_context(place.once(delivery(1)))
        await place.make(first, run_id(1))
        first.keep(Answer(503))
    assert place.effects(run_id(1)) == 0
    assert await deliver(place, 1, 5) == "made"


async def test_others_are_refused_while_one_is_in_progress(place: Place) -> None:
    async with place.once(delivery(1, 5)) as first:
        await place.make(first, run_id(1))
        for token in (4, 5, 6):
            with pytest.raises(RefusedDelivery) as refused:
                await deliver_strictly(place, token)
            assert refused.value.reason in (Reason.IN_PROGRESS, Reason.STALE)
            if token >= 5:
                assert isinstance(refused.value, DeliveryInProgress)
                assert refused.value.retry_after_s is not None
                assert refused.value.retry_after_s >= 1
    assert await deliver(place, 1, 6) == "replayed"
    assert place.effects(run_id(1)) == 1


def fail() -> None:
    raise ZeroDivisionError


async def deliver_strictly(place: Place, token: int) -> None:
    async with place.once(delivery(1, token)):
        raise AssertionError("two deliveries of a run were let in at a time")


async def test_an_effect_in_progress_that_fails_leaves_the_run_to_the_next(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.raises(ZeroDivisionError))
        await place.make(await stack.enter_async_context(place.once(delivery(1, 5))), run_id(1))
        with pytest.raises(DeliveryInProgress):
            await deliver_strictly(place, 6)
        fail()
    assert await deliver(place, 1, 6) == "made"
    assert place.effects(run_id(1)) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_any_history_of_a_run_ends_as_the_rules_say(place: Place, seed: int) -> None:
    drawn = random.Random(seed)
    seen: dict[int, int] = {}
    done: set[int] = set()
    for _ in range(60):
        number, token, fails = drawn.randint(1, 6), drawn.randint(1, 9), drawn.random() < 0.7
        if number in done:
            expected = "replayed"
        elif token < seen.get(number, 0):
            expected = "stale"
        else:
            seen[number] = token
            expected = "failed" if fails else "made"
            if not fails:
                done.add(number)
        assert await deliver(place, number, token, fails=fails) == expected
        assert place.effects(run_id(number)) == (number in done)
