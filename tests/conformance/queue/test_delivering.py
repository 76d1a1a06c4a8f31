import pytest

from tickwheel.ports.queue import HINT, PACK_COUNT, Queue

from .hints import ALL, HOOKS, delivered, fences, hints, taken
from .yards import VISIBLE_AGAIN_MS, Yard


async def test_a_hint_comes_out_as_it_went_in(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(7, 65_535))
    topic, rows, _ = await delivered(queue)
    assert topic == HOOKS
    assert rows.dtype == HINT
    assert rows.tolist() == hints(7, 65_535).tolist()


async def test_an_empty_queue_gives_nothing(queue: Queue) -> None:
    await queue.publish(HOOKS, hints())
    assert list(await queue.take([HOOKS], ALL)) == []
    assert list(await queue.take([], ALL)) == []
    await queue.ack([])
    await queue.nack([])


async def test_the_publisher_may_use_its_array_again(queue: Queue) -> None:
    rows = hints(1, 2)
    await queue.publish(HOOKS, rows)
    rows["fence"] = 99
    assert await taken(queue) == [1, 2]


async def test_every_second_row_of_an_array_can_be_published(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2, 3, 4)[::2])
    assert await taken(queue) == [1, 3]


async def test_a_taker_may_change_what_it_got(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    _, rows, receipt = await delivered(queue)
    rows["fence"] = 99
    await queue.nack([receipt])
    assert await taken(queue) == [1, 2]


async def test_what_is_out_is_given_to_nobody_else(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    assert await taken(queue) == [1, 2]
    await yard.pass_ms(VISIBLE_AGAIN_MS // 2)
    assert await taken(queue) == []
    assert await taken(await yard.open()) == []


async def test_what_nobody_acked_comes_again(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    for _ in range(3):
        assert await taken(queue) == [1, 2]
        await yard.pass_ms(VISIBLE_AGAIN_MS)


async def test_what_nobody_acked_comes_to_another_consumer(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    late = (await delivered(queue)).receipt
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    other = await yard.open()
    second = await delivered(other)
    assert fences(second.rows) == [1, 2]
    await queue.ack([late])
    await queue.nack([late])
    assert await taken(queue) == []
    await other.ack([second.receipt])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == []


async def test_each_delivery_is_timed_by_itself(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    await taken(queue)
    await yard.pass_ms(VISIBLE_AGAIN_MS // 2)
    await queue.publish(HOOKS, hints(2))
    await taken(queue)
    await yard.pass_ms(VISIBLE_AGAIN_MS // 2)
    assert await taken(queue) == [1]


async def test_what_was_acked_never_comes_again(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    receipt = (await delivered(queue)).receipt
    await queue.ack([receipt])
    await queue.ack([receipt])
    await queue.nack([receipt])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == []


async def test_what_was_given_back_can_be_taken_at_once_and_only_once(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    receipt = (await delivered(queue)).receipt
    await queue.nack([receipt])
    await queue.nack([receipt])
    second = await delivered(await yard.open())
    assert fences(second.rows) == [1, 2]
    await queue.ack([second.receipt])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == []


@pytest.mark.parametrize("verb", ["ack", "nack"])
@pytest.mark.parametrize("taken_by_another", [False, True])
async def test_a_late_receipt_is_void(yard: Yard, queue: Queue, verb: str, taken_by_another: bool) -> None:
    await queue.publish(HOOKS, hints(1))
    late = (await delivered(queue)).receipt
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    if taken_by_another:
        assert await taken(queue) == [1]
    await getattr(queue, verb)([late])
    assert await taken(queue) == ([] if taken_by_another else [1])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == [1]


async def test_one_receipt_says_nothing_about_another(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    first = (await delivered(queue)).receipt
    await queue.publish(HOOKS, hints(2))
    await taken(queue)
    await queue.ack([first])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == [2]


async def test_several_receipts_go_in_one_call(yard: Yard, queue: Queue) -> None:
    receipts = []
    for fence in range(1, 7):
        await queue.publish(HOOKS, hints(fence))
        receipts.append((await delivered(queue)).receipt)
    await queue.ack(receipts[:3])
    await queue.nack(receipts[2:5])
    assert await taken(queue) == [4, 5]
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await taken(queue) == [4, 5, 6]


async def test_a_take_gives_whole_packs_up_to_its_limit(queue: Queue) -> None:
    for first in (0, 10, 20):
        await queue.publish(HOOKS, hints(*range(first, first + 10)))
    assert list(await queue.take([HOOKS], 0)) == []
    assert fences((await delivered(queue, limit=25)).rows) == list(range(20))
    assert fences((await delivered(queue, limit=3)).rows) == list(range(20, 30))


async def test_a_large_publication_comes_in_packs_that_lose_nothing(queue: Queue) -> None:
    published = list(range(3 * PACK_COUNT + 5))
    await queue.publish(HOOKS, hints(*published))
    seen: list[int] = []
    while deliveries := await queue.take([HOOKS], 1):
        [delivery] = deliveries
        assert len(delivery.rows) <= PACK_COUNT
        seen += fences(delivery.rows)
        await queue.ack([delivery.receipt])
    assert sorted(seen) == published


async def test_the_limit_holds_for_what_comes_again_too(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(*range(2 * PACK_COUNT)))
    assert len(await taken(queue)) == 2 * PACK_COUNT
    await queue.publish(HOOKS, hints(1_000))
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    seen = []
    for _ in range(2):
        delivery = await delivered(queue, limit=PACK_COUNT)
        assert len(delivery.rows) <= PACK_COUNT
        seen += fences(delivery.rows)
    seen += await taken(queue)
    assert sorted(seen) == [*range(2 * PACK_COUNT), 1_000]


async def test_depth_counts_what_a_take_could_give(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2, 3))
    assert await queue.depth([HOOKS]) == [3]
    await taken(queue)
    assert await queue.depth([HOOKS]) == [0]
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await queue.depth([HOOKS]) == [3]
    receipt = (await delivered(queue)).receipt
    await queue.nack([receipt])
    assert await queue.depth([HOOKS]) == [3]
    receipt = (await delivered(queue)).receipt
    await queue.ack([receipt])
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    assert await queue.depth([HOOKS]) == [0]
