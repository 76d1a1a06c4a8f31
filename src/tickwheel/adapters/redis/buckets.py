"""Minute buckets on Redis: a sorted set per minute, sixteenth of the shards, and process.

    tickwheel:<cluster>:schedule:{202611302152:07}:9f3a2c1d   score = due_ms of the pack's first timer
                                                              member = its place (4 bytes) + TIMER rows

A member is a pack of up to 64 timers. One timer per member costs 143 bytes of Redis' memory each and 1.3 µs to
read; in full packs 43 bytes and 0.2 µs (ADR 0023). The place, counted by the process, keeps packs apart that are
alike, and in order. The braces spread the buckets over the masters of a Redis Cluster.

Every bucket expires four hours after its minute, by the server's clock from when it was last added to: that is
what removes the buckets of a process that died.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from tickwheel.adapters.redis.address import RedisAddress, read_address
from tickwheel.adapters.redis.servers import Call, open_servers, run_commands
from tickwheel.domain.columns import TIMER, Rows
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import Pack
from tickwheel.ports.clock import Clock

LIFE_MS: Final = 4 * 3_600_000
CALL_SECONDS: Final = 2.0
"""What is far can wait longer than a queue."""
READ_PACKS: Final = 256
"""A large bucket is read in pieces: an answer of megabytes would be parsed in one go, while timers are due."""
_AT_BYTES: Final = 4


class RedisBuckets:
    """Implements `ports.buffer.Buffer`; `owner` names this process and nobody else."""

    def __init__(
        self,
        address: RedisAddress,
        clock: Clock,
        *,
        cluster: str,
        owner: str,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._clock, self._owner = clock, owner
        self._prefix = f"tickwheel:{cluster}:schedule:"
        self._servers = open_servers(address, clock, call_seconds=call_seconds)

    async def add(self, packs: Sequence[Pack]) -> None:
        now_ms, by_bucket = self._clock.now_ms(), dict[Bucket, list[bytes | int]]()
        for pack in packs:
            words = by_bucket.setdefault(pack.bucket, [])
            words.append(int(pack.rows["due_ms"].min()))
            words.append(pack.at.to_bytes(_AT_BYTES, "big") + pack.rows.tobytes())
        calls = []
        for bucket, words in by_bucket.items():
            key, life_ms = self._key(bucket), max(0, bucket.until_ms - now_ms) + LIFE_MS
            calls.append(Call(key, ("ZADD", key, *words)))
            calls.append(Call(key, ("PEXPIRE", key, life_ms)))
        await run_commands(self._servers, calls)

    async def read(self, bucket: Bucket) -> Rows:
        key = self._key(bucket)
        members: list[bytes] = []
        while len(members) % READ_PACKS == 0:
            first = len(members)
            call = Call(key, ("ZRANGE", key, first, first + READ_PACKS - 1))
            [piece] = await run_commands(self._servers, [call])
            if not piece:
                break
            members += piece
        packs = sorted((member[:_AT_BYTES], member[_AT_BYTES:]) for member in members)
        data = b"".join(rows for _, rows in packs)
        return np.frombuffer(bytearray(data[: len(data) // TIMER.itemsize * TIMER.itemsize]), dtype=TIMER)

    async def drop(self, buckets: Sequence[Bucket]) -> None:
        keys = [self._key(bucket) for bucket in buckets]
        await run_commands(self._servers, [Call(key, ("UNLINK", key)) for key in keys])

    async def aclose(self) -> None:
        await self._servers.aclose()

    def _key(self, bucket: Bucket) -> bytes:
        minute = datetime.fromtimestamp(bucket.from_ms / 1000, UTC)
        return f"{self._prefix}{{{minute:%Y%m%d%H%M}:{bucket.sub:02}}}:{self._owner}".encode()


def open_redis_buckets(url: str, clock: Clock, *, cluster: str, owner: str) -> RedisBuckets:
    """Nothing is sent yet. Raises `ConfigError` for a URL that can't be understood."""
    return RedisBuckets(read_address(url, setting="buffer"), clock, cluster=cluster, owner=owner)
