"""Idempotency keys that were seen, on Redis: `tickwheel:<cluster>:key:{<hash of tenant and key>}`, for a day."""

import hashlib
from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.redis.address import RedisAddress, read_address
from tickwheel.adapters.redis.servers import Call, open_servers, run_commands
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key

LIFE_S: Final = 86_400
CALL_SECONDS: Final = 0.2
"""It is there to save time; past this it has cost more than it can save."""


class RedisKeys:
    """Implements `ports.keys.KeyCache`."""

    def __init__(
        self, address: RedisAddress, clock: Clock, *, cluster: str, call_seconds: float = CALL_SECONDS
    ) -> None:
        self._prefix = f"tickwheel:{cluster}:key:".encode()
        self._servers = open_servers(address, clock, call_seconds=call_seconds)

    async def seen(self, keys: Sequence[Key]) -> Sequence[bool]:
        names = [self._name(key) for key in keys]
        answers = await run_commands(self._servers, [Call(name, ("EXISTS", name)) for name in names])
        return [answer == 1 for answer in answers]

    async def note(self, keys: Sequence[Key]) -> None:
        names = [self._name(key) for key in keys]
        await run_commands(self._servers, [Call(name, ("SET", name, b"1", "EX", LIFE_S)) for name in names])

    async def aclose(self) -> None:
        await self._servers.aclose()

    def _name(self, key: Key) -> bytes:
        return self._prefix + b"{" + hashlib.sha256("\0".join(key).encode()).hexdigest().encode() + b"}"


def open_redis_keys(url: str, clock: Clock, *, cluster: str) -> RedisKeys:
    """Nothing is sent yet. Raises `ConfigError` for a URL that can't be understood."""
    return RedisKeys(read_address(url, setting="key_cache"), clock, cluster=cluster)
