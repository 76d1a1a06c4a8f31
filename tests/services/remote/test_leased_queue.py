"""Brief leases save a begin; whatever they say, or if they can't be had, every hint reaches a worker in time."""

from collections.abc import Sequence

import numpy as np

from tickwheel.adapters.memory.brief_leases import MemoryBriefLeases
from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import HINT, WEBHOOKS, Delivery, Topic
from tickwheel.services.remote.leased_queue import LENGTH_MS, LeasedQueue
from tickwheel.testing.virtual_clock import VirtualClock

HOOKS = Topic(Lane.DEFAULT, WEBHOOKS)
PUBLISH_AGAIN_MS = 5_000


class FaultyLeases(MemoryBriefLeases):
    """Can be away."""

    away = False
    asked = 0

    async def acquire(self, hints: Rows, length_ms: int) -> Bools:
        self.asked += 1
        if self.away:
            raise ConnectionError("away")
        return await super().acquire(hints, length_ms)

    async def release(self, hints: Rows) -> None:
        if self.away:
            raise ConnectionError("away")
        await super().release(hints)


class Pair:
    """Two workers on one queue and one Redis."""

    def __init__(self) -> None:
        self.clock, self.held = VirtualClock(), dict[bytes, tuple[str, int]]()
        self.queue = MemoryQueue(self.clock, PUBLISH_AGAIN_MS)
        self.leases = [FaultyLeases(self.clock, name, self.held) for name in ("a", "b")]
        self.a, self.b = (LeasedQueue(self.queue, leases, self.clock) for leases in self.leases)

    async def publish(self, *numbers: int) -> None:
        rows = np.zeros(len(numbers), dtype=HINT)
        rows["scheduled_ms"], rows["fence"] = numbers, 1
        await self.queue.publish(HOOKS, rows)

    async def left(self) -> int:
        [depth] = await self.queue.depth([HOOKS])
        return depth


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    return [number for delivery in deliveries for number in delivery.rows["scheduled_ms"].tolist()]


async def test_a_hint_that_was_published_twice_is_given_once() -> None:
    pair = Pair()
    await pair.publish(1, 2)
    assert numbers(await pair.a.take([HOOKS], 10)) == [1, 2]
    await pair.publish(2, 3)
    await pair.publish(1)
    assert numbers(await pair.b.take([HOOKS], 10)) == [3]
    assert await pair.left() == 0


async def test_what_is_given_back_may_be_taken_by_another_at_once() -> None:
    pair = Pair()
    await pair.publish(1)
    [delivery] = await pair.a.take([HOOKS], 10)
    await pair.a.nack([delivery.receipt])
    assert numbers(await pair.b.take([HOOKS], 10)) == [1]


async def test_a_worker_that_dies_delays_its_hints_until_they_are_published_again_and_no_longer() -> None:
    pair = Pair()
    await pair.publish(1)
    await pair.a.take([HOOKS], 10)  # and never speaks again
    assert LENGTH_MS < PUBLISH_AGAIN_MS
    pair.clock.step_ms(PUBLISH_AGAIN_MS)
    await pair.publish(1)
    assert 1 in numbers(await pair.b.take([HOOKS], 10))


async def test_a_lease_that_never_ends_costs_one_more_publication() -> None:
    """A Redis that came back with what it held, its clock set back by a year."""
    pair = Pair()
    await pair.publish(1)
    [delivery] = await pair.a.take([HOOKS], 10)
    await pair.a.ack([delivery.receipt])
    pair.held.update(dict.fromkeys(pair.held, ("a", 1 << 60)))
    await pair.publish(1)
    assert numbers(await pair.b.take([HOOKS], 10)) == []
    await pair.publish(1)
    assert numbers(await pair.b.take([HOOKS], 10)) == [1]


async def test_leases_that_were_flushed_give_a_hint_twice_as_without_them() -> None:
    pair = Pair()
    await pair.publish(1)
    await pair.a.take([HOOKS], 10)
    pair.held.clear()
    await pair.publish(1)
    assert numbers(await pair.b.take([HOOKS], 10)) == [1]


async def test_while_leases_cannot_be_had_hints_pass_and_nobody_waits_for_them_each_time() -> None:
    pair = Pair()
    pair.leases[0].away = True
    for number in range(5):
        await pair.publish(number)
        [delivery] = await pair.a.take([HOOKS], 10)
        assert numbers([delivery]) == [number]
        await pair.a.nack([delivery.receipt])
        [delivery] = await pair.a.take([HOOKS], 10)
        await pair.a.ack([delivery.receipt])
    assert pair.leases[0].asked == 1
