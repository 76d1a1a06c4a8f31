"""What a timer costs in the minute buckets on Redis: memory there, and CPU of this process to add and read it.

usage: python -m bench.redis_buckets [--timers N] [--packs 64 4 1]      starts a Redis of its own, prints JSON

Timers are spread over two hours. The bytes are those that `used_memory` grew by, keys and all.
"""

import argparse
import asyncio
import json
import time

import numpy as np
from tests.servers.redis import RedisServer

from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.buckets import RedisBuckets
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.columns import TIMER
from tickwheel.domain.minutes import MINUTE_MS, SUB_COUNT, Bucket
from tickwheel.ports.buffer import Pack

MINUTES = 120
PACKS_A_CALL = 256


async def measure(server: RedisServer, timer_count: int, pack_count: int) -> dict[str, float]:
    """Fill the buckets evenly with packs of that size, then read an eighth of them back."""
    server.ask("FLUSHALL")
    buffer = RedisBuckets(
        read_address(server.url, setting="buffer"), SystemClock(), cluster="bench", owner="9f3a2c1d"
    )
    each = max(1, timer_count // (MINUTES * SUB_COUNT))
    first = SystemClock().now_ms() // MINUTE_MS
    buckets = [Bucket(first + minute, sub) for minute in range(MINUTES) for sub in range(SUB_COUNT)]
    drawn = np.random.default_rng(1)
    packs = []
    for bucket in buckets:
        rows = np.frombuffer(bytearray(drawn.bytes(TIMER.itemsize * each)), dtype=TIMER)
        rows["due_ms"] = bucket.from_ms
        packs += [Pack(bucket, at, rows[at : at + pack_count]) for at in range(0, each, pack_count)]
    await buffer.read(buckets[0])
    before = _used_bytes(server)
    began = time.process_time()
    for start in range(0, len(packs), PACKS_A_CALL):
        await buffer.add(packs[start : start + PACKS_A_CALL])
    add_s = time.process_time() - began
    used = _used_bytes(server) - before
    began, read_count = time.process_time(), 0
    for bucket in buckets[:: len(buckets) // 240]:
        read_count += len(await buffer.read(bucket))
    read_s = time.process_time() - began
    await buffer.aclose()
    count = each * len(buckets)
    return {
        "timers": count,
        "pack": pack_count,
        "bytes_per_timer": round(used / count, 1),
        "add_us": round(add_s / count * 1e6, 2),
        "read_us": round(read_s / read_count * 1e6, 2),
    }


def _used_bytes(server: RedisServer) -> int:
    return int(server.ask("INFO", "memory").split(b"used_memory:")[1].split()[0])


def main() -> None:
    """Measure each pack size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=960_000)
    parser.add_argument("--packs", type=int, nargs="+", default=[64, 16, 4, 1])
    given = parser.parse_args()
    with RedisServer() as server:
        for pack in given.packs:
            print(json.dumps(asyncio.run(measure(server, given.timers, pack))))


if __name__ == "__main__":
    main()
