"""What is special to guards in Redis: claims that run out, answers that get lost, and a Redis that forgets."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.client import Pipeline

from tickwheel.receiver import Answer, DeliveryInProgress, RedisGuard, StaleDelivery

from .places import RedisPlace
from .signing import delivery, run_id

SHORT_MS = 1


@pytest.fixture
def place() -> Iterator[RedisPlace]:
    made = RedisPlace()
    yield made
    made.client.close()


def key(place: RedisPlace) -> str:
    return place.prefix + run_id(1)


def test_a_claim_that_ran_out_is_taken_over_and_the_late_one_changes_nothing(place: RedisPlace) -> None:
    hasty = RedisGuard(prefix=place.prefix, claim_ms=0)
    with pytest.raises(StaleDelivery), hasty.once(place.client, delivery(token=5)) as late:  # noqa: PT012 - the effect is what fails
        place.make_now(late.connection, run_id(1))
        with pytest.raises(StaleDelivery):
            place.guard.once(place.client, delivery(token=4)).__enter__()
        with place.guard.once(place.client, delivery(token=6)) as first:
            assert first
            place.make_now(first.connection, run_id(1))
            first.keep(Answer(200, b"of the second"))
    assert place.effects(run_id(1)) == 1
    with place.guard.once(place.client, delivery(token=5)) as again:
        assert again.answer.body == b"of the second"


def test_a_claim_taken_over_is_not_given_back_by_the_one_that_lost_it(place: RedisPlace) -> None:
    hasty = RedisGuard(prefix=place.prefix, claim_ms=0)
    late = hasty.once(place.client, delivery(token=5))
    late.__enter__()
    with place.guard.once(place.client, delivery(token=6)):
        error = ZeroDivisionError()
        assert not late.__exit__(ZeroDivisionError, error, None)
        with pytest.raises(DeliveryInProgress):
            place.guard.once(place.client, delivery(token=7)).__enter__()


def test_the_rest_of_a_claim_is_told(place: RedisPlace) -> None:
    with place.guard.once(place.client, delivery()), pytest.raises(DeliveryInProgress) as refused:
        place.guard.once(place.client, delivery(token=6)).__enter__()
    assert refused.value.retry_after_s is not None
    assert 30 < refused.value.retry_after_s <= 60


def test_an_effect_elsewhere_may_wait_for_its_own_time(place: RedisPlace) -> None:
    with place.guard.once(place.client, delivery()) as first:
        assert place.client.get("no such key") is None, "the client is free meanwhile"
        assert first


@pytest.mark.parametrize("executed", [True, False])
def test_a_lost_answer_to_the_record_is_looked_up(
    place: RedisPlace, executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Pipeline.execute

    def lossy(pipeline: Any, *arguments: Any, **named: Any) -> None:
        if executed:
            real(pipeline, *arguments, **named)
        pipeline.reset()
        raise redis.WatchError("A ConnectionError occurred on while watching one or more keys")

    monkeypatch.setattr(Pipeline, "execute", lossy)
    turn = place.guard.once(place.client, delivery())
    place.make_now(turn.__enter__().connection, run_id(1))
    if executed:
        turn.__exit__(None, None, None)
    else:
        with pytest.raises(redis.WatchError):
            turn.__exit__(None, None, None)
    monkeypatch.undo()
    with place.guard.once(place.client, delivery(token=6)) as first:
        assert bool(first) is not executed
        if first:
            place.make_now(first.connection, run_id(1))
    assert place.effects(run_id(1)) == 1


def test_a_redis_that_forgets_a_claim_lets_nothing_through_and_calls_nobody_stale(place: RedisPlace) -> None:
    with pytest.raises(redis.WatchError), place.guard.once(place.client, delivery()) as first:  # noqa: PT012 - the effect is what fails
        place.make_now(first.connection, run_id(1))
        place.client.delete(key(place))
    assert place.effects(run_id(1)) == 0


def test_an_effect_that_executes_the_pipeline_is_told_so(place: RedisPlace) -> None:
    turn = place.guard.once(place.client, delivery())
    turn.__enter__().connection.execute()
    with pytest.raises(RuntimeError, match="leave that to the guard"):
        turn.__exit__(None, None, None)


def test_keys_expire(place: RedisPlace) -> None:
    guard = RedisGuard(prefix=place.prefix, keep_ms=100_000)
    with guard.once(place.client, delivery()):
        assert 0 < place.client.pttl(key(place)) <= 100_000
    assert 0 < place.client.pttl(key(place)) <= 100_000


def test_large_tokens_are_compared_exactly(place: RedisPlace) -> None:
    last = 2**53 - 1
    for token in (last - 1, last):
        with pytest.raises(ZeroDivisionError), place.guard.once(place.client, delivery(token=token)):
            raise ZeroDivisionError
    with pytest.raises(StaleDelivery, match=f"{last} was here before"):
        place.guard.once(place.client, delivery(token=last - 1)).__enter__()
