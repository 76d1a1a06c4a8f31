import asyncio

import pytest

from tickwheel.domain.job import Lane
from tickwheel.ports.queue import WEBHOOKS, Queue, Topic, handler_route, tenant_route

from .hints import ALL, HOOKS, MAIL, fences, hints, taken

ODD_NAMES = (
    "x" * 200,
    "ß漢字🚀" * 50,
    "{a}b",
    "a}{b",
    "{}",
    "a:b/c d\n\t\x1f",
    "\N{COMBINING ACUTE ACCENT}e",
    "e\N{COMBINING ACUTE ACCENT}",
    "%s ' \" \\ *?[a-z]",
    "",
)


async def test_lanes_are_apart(queue: Queue) -> None:
    for lane in Lane:
        await queue.publish(Topic(lane, WEBHOOKS), hints(int(lane) + 1))
    for lane in Lane:
        assert await queue.depth([Topic(lane, WEBHOOKS)]) == [1]
        assert await taken(queue, Topic(lane, WEBHOOKS)) == [int(lane) + 1]


async def test_routes_are_apart(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    await queue.publish(MAIL, hints(2))
    assert await taken(queue, Topic(Lane.DEFAULT, "handler:mai")) == []
    assert await taken(queue, MAIL) == [2]
    assert await taken(queue, MAIL) == []
    assert await taken(queue, HOOKS) == [1]


async def test_names_of_handlers_are_any_text(queue: Queue) -> None:
    topics = [Topic(Lane.LOW, handler_route(name)) for name in ODD_NAMES]
    for fence, topic in enumerate(topics):
        await queue.publish(topic, hints(fence))
    assert await queue.depth(topics) == [1] * len(topics)
    for fence, topic in enumerate(topics):
        [delivery] = await queue.take([topic], ALL)
        assert (delivery.topic, fences(delivery.rows)) == (topic, [fence])
        await queue.ack([delivery.receipt])
    assert await queue.depth(topics) == [0] * len(topics)


async def test_what_is_for_a_tenants_own_workers_is_apart(queue: Queue) -> None:
    """Of all others, whatever the tenants are called."""
    tenants = (*ODD_NAMES, "\x00", "\ud800", "acme", "acme:webhooks", "Acme", "t" * 1_000)
    shared = [WEBHOOKS, handler_route("webhooks"), handler_route("x" * 200)]
    topics = [Topic(Lane.HIGH, tenant_route(tenant, route)) for route in shared for tenant in (None, *tenants)]
    assert len(set(topics)) == len(topics)
    await asyncio.gather(*(queue.publish(topic, hints(fence)) for fence, topic in enumerate(topics)))
    assert await queue.depth(topics) == [1] * len(topics)
    for fence, topic in enumerate(topics):
        [delivery] = await queue.take([topic], ALL)
        assert (delivery.topic, fences(delivery.rows)) == (topic, [fence])
        await queue.ack([delivery.receipt])


async def test_a_take_gives_topics_in_the_order_asked_for(queue: Queue) -> None:
    low, critical = Topic(Lane.LOW, WEBHOOKS), Topic(Lane.CRITICAL, WEBHOOKS)
    await queue.publish(low, hints(1))
    await queue.publish(MAIL, hints(2))
    await queue.publish(critical, hints(3))
    deliveries = await queue.take([critical, HOOKS, MAIL, low], ALL)
    assert [delivery.topic for delivery in deliveries] == [critical, MAIL, low]
    assert [fences(delivery.rows) for delivery in deliveries] == [[3], [2], [1]]
    assert len({delivery.receipt for delivery in deliveries}) == 3


@pytest.mark.parametrize("first", [HOOKS, MAIL])
async def test_the_limit_is_for_all_topics_and_the_first_is_served_first(queue: Queue, first: Topic) -> None:
    second = MAIL if first == HOOKS else HOOKS
    for topic in (second, first):
        for start in (0, 10):
            await queue.publish(topic, hints(*range(start, start + 10)))
    assert [d.topic for d in await queue.take([first, second], 10)] == [first]
    deliveries = await queue.take([first, second], 25)
    assert [(d.topic, len(d.rows)) for d in deliveries] == [(first, 10), (second, 10)]


async def test_only_the_very_first_pack_may_be_larger_than_the_limit(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1, 2))
    await queue.publish(MAIL, hints(3, 4))
    deliveries = await queue.take([HOOKS, MAIL], 1)
    assert [(d.topic, len(d.rows)) for d in deliveries] == [(HOOKS, 2)]
    await queue.publish(HOOKS, hints(5))
    deliveries = await queue.take([HOOKS, MAIL], 2)
    assert [(d.topic, len(d.rows)) for d in deliveries] == [(HOOKS, 1)]
    assert await queue.depth([MAIL, HOOKS]) == [2, 0]


async def test_topics_of_one_take_are_acked_and_given_back_apart(queue: Queue) -> None:
    await queue.publish(HOOKS, hints(1))
    await queue.publish(MAIL, hints(2))
    of_hooks, of_mail = await queue.take([HOOKS, MAIL], ALL)
    await queue.ack([of_hooks.receipt])
    await queue.nack([of_mail.receipt])
    assert await queue.depth([HOOKS, MAIL]) == [0, 1]
    assert await taken(queue, HOOKS, MAIL) == [2]


async def test_many_topics_at_once(queue: Queue) -> None:
    topics = [Topic(lane, handler_route(f"h{number}")) for lane in Lane for number in range(30)]
    for number, topic in enumerate(topics):
        await queue.publish(topic, hints(number))
    seen = []
    while deliveries := await queue.take(topics, 7):
        seen += [fence for delivery in deliveries for fence in fences(delivery.rows)]
        await queue.ack([delivery.receipt for delivery in deliveries])
    assert seen == list(range(len(topics)))
