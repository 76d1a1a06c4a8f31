"""The line of the docs that makes a user gives it all that a queue needs."""

from contextlib import aclosing
from pathlib import Path

import redis

from tickwheel.adapters.redis.queue import open_redis_queue
from tickwheel.adapters.system import SystemClock

from ...conformance.queue.hints import HOOKS, MAIL, delivered, hints, taken
from ...servers.redis import RedisServer

PAGE = Path(__file__).parents[3] / "docs/reference/queues.md"


async def test_a_user_with_the_documented_rights_can_do_everything() -> None:
    [line] = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("ACL SETUSER")]
    with RedisServer() as server:
        server.ask(*line.replace("PASSWORD", "word").split())
        url = server.url.replace("//", "//tickwheel:word@") + "/1"
        queue = open_redis_queue(url, SystemClock(), cluster="c", visible_again_ms=60_000)
        async with aclosing(queue):
            await queue.wait([HOOKS, MAIL], 10)
            await queue.publish(HOOKS, hints(1, 2))
            await queue.wait([HOOKS], 10_000)
            await queue.nack([(await delivered(queue)).receipt])
            await queue.ack([(await delivered(queue)).receipt])
            server.ask("SCRIPT", "FLUSH")
            assert await taken(queue, HOOKS, MAIL) == []
            assert await queue.depth([HOOKS]) == [0]
        with redis.Redis(port=server.port, username="tickwheel", password="word", protocol=2) as client:
            for forbidden in (
                ("GET", "tickwheel:x"),
                ("KEYS", "*"),
                ("FLUSHALL",),
                ("XADD", "other", "*", "a", "b"),
            ):
                try:
                    client.execute_command(*forbidden)
                except redis.exceptions.NoPermissionError:
                    continue
                raise AssertionError(f"{forbidden[0]} is allowed")
