"""The queue on Redis Streams (6.2 or newer): one stream and one consumer group per topic, one entry per pack.

Every verb is a script of one key, so that it is atomic, costs one round trip and works on a Redis Cluster, where
the topics spread over the masters. The group's list of pending entries is what was delivered and not acked; an
entry that was there for `visible_again_ms` is delivered again under its next number, which makes the receipt of
before void. Times are by the server's clock.

**Nothing here must be kept.** After a flush, a restart or a failover to a stale replica, streams and groups are
made anew by whoever publishes and takes next; owners publish again what nobody began. A stream lives for an hour
after the last publication, and holds `MOST_PACKS`: beyond that the oldest go, as where no worker ever takes them.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.adapters.redis.address import RedisAddress, read_address
from tickwheel.adapters.redis.servers import ForKey, Script, load_script, open_servers, run_script
from tickwheel.adapters.redis.wakes import Wakes
from tickwheel.adapters.redis.wire import CALL_SECONDS
from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Lane
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import HINT, PACK_COUNT, Delivery, Receipt, Topic

MOST_PACKS: Final = 16_384
"""A million hints and 36 MB at most per topic."""
LIFE_MS: Final = 3_600_000
LOOK_AGAIN_MS: Final = 1_000
"""How often who waits looks without being woken: wake-ups get lost, and nothing tells of lapsed deliveries."""
PACKS_WEIGHED: Final = 32
"""How many packs depth looks at; more are taken to be like those."""
_PUBLISH: Final[Script] = load_script("publish")
_TAKE: Final[Script] = load_script("take")
_SETTLE: Final[Script] = load_script("settle")
_DEPTH: Final[Script] = load_script("depth")


class RedisQueue:
    """Implements `ports.queue.Queue`. No caller waits longer than about `call_seconds`, whatever Redis does."""

    def __init__(
        self,
        address: RedisAddress,
        clock: Clock,
        *,
        cluster: str,
        visible_again_ms: int,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._clock, self._again_ms = clock, visible_again_ms
        self._prefix = f"tickwheel:{cluster}:queue:"
        self._servers = open_servers(address, clock, call_seconds=call_seconds)
        self._wakes = Wakes(address, self._servers.any_place)

    async def publish(self, topic: Topic, hints: Rows) -> None:
        packs = [hints[start : start + PACK_COUNT].tobytes() for start in range(0, len(hints), PACK_COUNT)]
        if packs:
            key = self._key(topic)
            await run_script(self._servers, _PUBLISH, [(key, (key, MOST_PACKS, LIFE_MS, *packs))])

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        if limit <= 0 or not topics:
            return []
        filled = topics
        if len(topics) > 1:  # most are empty, and which room is left depends on those before
            sizes = await self._depth(topics, instead=0)
            filled = [topic for topic, size in zip(topics, sizes, strict=True) if size]
        deliveries: list[Delivery] = []
        room = limit
        for topic in filled:
            try:
                delivery = await self._take(topic, room, larger=not deliveries) if room > 0 else None
            except ConnectionError:
                if not deliveries:
                    raise
                break  # what was got before must not wait until it is visible again
            if delivery is not None:
                deliveries.append(delivery)
                room -= len(delivery.rows)
        return deliveries

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        channels = [self._key(topic) for topic in topics]
        woken = await self._wakes.listen(channels)
        listening = asyncio.ensure_future(woken.wait())
        until_ms = self._clock.monotonic_ms() + limit_ms
        try:
            while not any(await self._depth(topics, instead=0)):
                left_ms = until_ms - self._clock.monotonic_ms()
                if left_ms <= 0 or woken.is_set():
                    return
                sleeping = asyncio.ensure_future(self._clock.sleep_ms(min(left_ms, LOOK_AGAIN_MS)))
                try:
                    await asyncio.wait({listening, sleeping}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    sleeping.cancel()
        finally:
            listening.cancel()
            self._wakes.forget(channels, woken)

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        await self._settle(receipts, give_back=False)

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        await self._settle(receipts, give_back=True)

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        return await self._depth(topics)

    async def aclose(self) -> None:
        await self._wakes.aclose()
        await self._servers.aclose()

    def _key(self, topic: Topic) -> bytes:
        """Of the stream, and of the channel of its wake-ups. By the braces, a topic is on one master."""
        return f"{self._prefix}{{{int(topic.lane)}:{topic.route}}}".encode()

    async def _depth(self, topics: Sequence[Topic], *, instead: int | None = None) -> list[int]:
        """`instead`: of topics whose master can't be reached, while others can."""
        if not topics:
            return []
        arguments = (self._again_ms, HINT.itemsize, PACKS_WEIGHED)
        of_keys: list[ForKey] = [(self._key(topic), arguments) for topic in topics]
        return await run_script(self._servers, _DEPTH, of_keys, instead=instead)

    async def _take(self, topic: Topic, room: int, *, larger: bool) -> Delivery | None:
        arguments = (self._again_ms, room, HINT.itemsize, int(larger))
        [found] = await run_script(self._servers, _TAKE, [(self._key(topic), arguments)])
        ids, numbers, packs = found[0::3], found[1::3], found[2::3]
        if not packs:
            return None
        receipt = _receipt(topic, [f"{i.decode()} {number}" for i, number in zip(ids, numbers, strict=True)])
        return Delivery(topic, np.frombuffer(bytearray(b"".join(packs)), dtype=HINT), receipt)

    async def _settle(self, receipts: Sequence[Receipt], *, give_back: bool) -> None:
        entries: dict[bytes, list[str]] = {}
        for receipt in receipts:
            topic, named = _read_receipt(receipt)
            entries.setdefault(self._key(topic), []).extend(named)
        if entries:
            of_keys: list[ForKey] = [
                (key, (self._again_ms, key if give_back else b"", *named)) for key, named in entries.items()
            ]
            await run_script(self._servers, _SETTLE, of_keys)


def _receipt(topic: Topic, entries: Sequence[str]) -> Receipt:
    """`id number id number|lane|route`."""
    return f"{' '.join(entries)}|{int(topic.lane)}|{topic.route}"


def _read_receipt(receipt: Receipt) -> tuple[Topic, list[str]]:
    entries, lane, route = receipt.split("|", 2)
    return Topic(Lane(int(lane)), route), entries.split(" ")


def open_redis_queue(url: str, clock: Clock, *, cluster: str, visible_again_ms: int) -> RedisQueue:
    """The queue of that cluster; nothing is sent yet. Raises `ConfigError` for a URL that can't be understood."""
    address = read_address(url, setting="queue")
    return RedisQueue(address, clock, cluster=cluster, visible_again_ms=visible_again_ms)
