import pytest

from tickwheel.domain.columns import Rows, empty
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import HINT, PACK_COUNT, Queue
from tickwheel.testing.virtual_clock import VirtualClock

from .factories import VISIBLE_AGAIN_MS

ALL = 10_000


def hints(*fences: int) -> Rows:
    """Hints that are told apart by their tokens; the ids end in NUL bytes."""
    rows = empty(HINT, len(fences))
    for row, fence in zip(rows, fences, strict=True):
        row["job_id"] = fence.to_bytes(8, "big") + bytes(8)
        row["scheduled_ms"], row["fence"], row["flags"] = 1_790_000_000_000 + fence, fence, fence % 16
    return rows


def fences(rows: Rows) -> list[int]:
    return sorted(rows["fence"].tolist())


async def taken(queue: Queue, lane: Lane = Lane.DEFAULT) -> list[int]:
    return fences((await queue.take(lane, ALL)).rows)


async def test_a_hint_comes_out_as_it_went_in(queue: Queue) -> None:
    await queue.publish(Lane.DEFAULT, hints(7))
    rows, _ = await queue.take(Lane.DEFAULT, ALL)
    assert rows.dtype == HINT
    assert rows.tolist() == hints(7).tolist()


async def test_an_empty_lane_gives_an_empty_delivery(queue: Queue) -> None:
    await queue.publish(Lane.DEFAULT, hints())
    rows, receipt = await queue.take(Lane.DEFAULT, ALL)
    assert (len(rows), rows.dtype) == (0, HINT)
    await queue.ack(receipt)
    await queue.nack(receipt)


async def test_the_publisher_may_use_its_array_again(queue: Queue) -> None:
    rows = hints(1, 2)
    await queue.publish(Lane.DEFAULT, rows)
    rows["fence"] = 99
    assert await taken(queue) == [1, 2]


async def test_a_taker_may_change_what_it_got(queue: Queue) -> None:
    await queue.publish(Lane.DEFAULT, hints(1, 2))
    rows, receipt = await queue.take(Lane.DEFAULT, ALL)
    rows["fence"] = 99
    await queue.nack(receipt)
    assert await taken(queue) == [1, 2]


async def test_lanes_are_apart(queue: Queue) -> None:
    for lane in Lane:
        await queue.publish(lane, hints(int(lane) + 1))
    for lane in Lane:
        assert await queue.depth(lane) == 1
        assert await taken(queue, lane) == [int(lane) + 1]


async def test_what_is_out_is_given_to_nobody_else(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1, 2))
    assert await taken(queue) == [1, 2]
    clock.step_ms(VISIBLE_AGAIN_MS - 1)
    assert await taken(queue) == []


async def test_what_nobody_acked_comes_again(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1, 2))
    for _ in range(3):
        assert await taken(queue) == [1, 2]
        clock.step_ms(VISIBLE_AGAIN_MS)


async def test_each_delivery_is_timed_by_itself(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1))
    await taken(queue)
    clock.step_ms(VISIBLE_AGAIN_MS // 2)
    await queue.publish(Lane.DEFAULT, hints(2))
    await taken(queue)
    clock.step_ms(VISIBLE_AGAIN_MS // 2)
    assert await taken(queue) == [1]


async def test_what_was_acked_never_comes_again(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1, 2))
    _, receipt = await queue.take(Lane.DEFAULT, ALL)
    await queue.ack(receipt)
    await queue.ack(receipt)
    await queue.nack(receipt)
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == []


async def test_what_was_given_back_can_be_taken_at_once_and_only_once(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.HIGH, hints(1, 2))
    _, receipt = await queue.take(Lane.HIGH, ALL)
    await queue.nack(receipt)
    await queue.nack(receipt)
    rows, second = await queue.take(Lane.HIGH, ALL)
    assert fences(rows) == [1, 2]
    await queue.ack(second)
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue, Lane.HIGH) == []


@pytest.mark.parametrize("verb", ["ack", "nack"])
@pytest.mark.parametrize("taken_by_another", [False, True])
async def test_a_late_receipt_is_void(
    queue: Queue, clock: VirtualClock, verb: str, taken_by_another: bool
) -> None:
    await queue.publish(Lane.DEFAULT, hints(1))
    _, late = await queue.take(Lane.DEFAULT, ALL)
    clock.step_ms(VISIBLE_AGAIN_MS)
    if taken_by_another:
        assert await taken(queue) == [1]
    await getattr(queue, verb)(late)
    assert await taken(queue) == ([] if taken_by_another else [1])
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == [1]


async def test_one_receipt_says_nothing_about_another(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1))
    _, first = await queue.take(Lane.DEFAULT, ALL)
    await queue.publish(Lane.DEFAULT, hints(2))
    await taken(queue)
    await queue.ack(first)
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == [2]


async def test_a_take_gives_whole_packs_up_to_its_limit(queue: Queue) -> None:
    for first in (0, 10, 20):
        await queue.publish(Lane.DEFAULT, hints(*range(first, first + 10)))
    assert len((await queue.take(Lane.DEFAULT, 0)).rows) == 0
    assert len((await queue.take(Lane.DEFAULT, 25)).rows) == 20
    assert len((await queue.take(Lane.DEFAULT, 3)).rows) == 10


async def test_a_large_publication_comes_in_packs_that_lose_nothing(queue: Queue) -> None:
    published = list(range(3 * PACK_COUNT + 5))
    await queue.publish(Lane.LOW, hints(*published))
    seen: list[int] = []
    while len((delivery := await queue.take(Lane.LOW, 1)).rows):
        assert len(delivery.rows) <= PACK_COUNT
        seen += fences(delivery.rows)
        await queue.ack(delivery.receipt)
    assert sorted(seen) == published


async def test_depth_counts_what_a_take_could_give(queue: Queue, clock: VirtualClock) -> None:
    await queue.publish(Lane.DEFAULT, hints(1, 2, 3))
    assert await queue.depth(Lane.DEFAULT) == 3
    await taken(queue)
    assert await queue.depth(Lane.DEFAULT) == 0
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await queue.depth(Lane.DEFAULT) == 3
    _, receipt = await queue.take(Lane.DEFAULT, ALL)
    await queue.ack(receipt)
    clock.step_ms(VISIBLE_AGAIN_MS)
    assert await queue.depth(Lane.DEFAULT) == 0
