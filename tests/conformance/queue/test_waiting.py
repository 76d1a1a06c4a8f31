import asyncio

import pytest

from tickwheel.ports.queue import Queue

from .hints import HOOKS, MAIL, delivered, hints, taken
from .yards import VISIBLE_AGAIN_MS, Yard

PATIENCE_S = 20
LONG_MS = 30_000


async def ends(waiting: "asyncio.Future[None]") -> None:
    done, _ = await asyncio.wait({waiting}, timeout=PATIENCE_S)
    assert done, "nobody woke who waits"
    await waiting


async def test_what_is_there_need_not_be_waited_for(queue: Queue) -> None:
    await queue.publish(MAIL, hints(1))
    await ends(asyncio.ensure_future(queue.wait([HOOKS, MAIL], LONG_MS)))
    assert await taken(queue, MAIL) == [1]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_publication_wakes_who_waits(yard: Yard, queue: Queue, elsewhere: bool) -> None:
    publisher = await yard.open() if elsewhere else queue
    waiting = asyncio.ensure_future(queue.wait([MAIL, HOOKS], LONG_MS))
    await yard.pass_ms(0)
    await publisher.publish(HOOKS, hints(1))
    await ends(waiting)
    assert await taken(queue) == [1]


async def test_what_is_given_back_wakes_who_waits(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    receipt = (await delivered(queue)).receipt
    other = await yard.open()
    waiting = asyncio.ensure_future(other.wait([HOOKS], LONG_MS))
    await yard.pass_ms(0)
    await queue.nack([receipt])
    await ends(waiting)
    assert await taken(other) == [1]


async def test_what_becomes_visible_again_wakes_who_waits(yard: Yard, queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    await taken(queue)
    other = await yard.open()
    waiting = asyncio.ensure_future(other.wait([HOOKS], VISIBLE_AGAIN_MS + LONG_MS))
    await yard.pass_ms(VISIBLE_AGAIN_MS)
    await ends(waiting)
    assert await taken(other) == [1]


async def test_a_wait_ends_after_its_limit(yard: Yard, queue: Queue) -> None:
    waiting = asyncio.ensure_future(queue.wait([HOOKS], 200))
    await yard.pass_ms(200)
    await ends(waiting)
    await queue.wait([HOOKS], 0)
    assert await taken(queue) == []


async def test_a_wait_consumes_nothing_and_can_be_given_up(yard: Yard, queue: Queue) -> None:
    waiting = asyncio.ensure_future(queue.wait([HOOKS], LONG_MS))
    await yard.pass_ms(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    others = [asyncio.ensure_future(queue.wait([HOOKS], LONG_MS)) for _ in range(3)]
    await yard.pass_ms(0)
    await queue.publish(HOOKS, hints(1, 2))
    for other in others:
        await ends(other)
    assert await queue.depth([HOOKS]) == [2]
    assert await taken(queue) == [1, 2]
