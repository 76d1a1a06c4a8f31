"""Brief leases on Redis: one key per hint, `tickwheel:<cluster>:lease:{<run>:<token>}`, that expires by itself."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.adapters.redis.address import RedisAddress, read_address
from tickwheel.adapters.redis.servers import Script, load_script, open_servers, run_script
from tickwheel.domain.columns import Bools, Rows
from tickwheel.ports.clock import Clock

CALL_SECONDS: Final = 0.2
"""It is there to save time; past this it has cost more than it can save."""
_LEASE: Final[Script] = load_script("lease")


class RedisBriefLeases:
    """Implements `ports.brief_leases.BriefLeases`."""

    def __init__(
        self,
        address: RedisAddress,
        clock: Clock,
        *,
        cluster: str,
        holder: str,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._holder, self._prefix = holder, f"tickwheel:{cluster}:lease:"
        self._servers = open_servers(address, clock, call_seconds=call_seconds)

    async def acquire(self, hints: Rows, length_ms: int) -> Bools:
        return np.array([answer == 1 for answer in await self._run(hints, length_ms)], dtype=np.bool_)

    async def release(self, hints: Rows) -> None:
        await self._run(hints, 0)

    async def aclose(self) -> None:
        await self._servers.aclose()

    async def _run(self, hints: Rows, length_ms: int) -> Sequence[int]:
        if not len(hints):
            return []
        runs = zip(hints["job_id"].tolist(), hints["scheduled_ms"].tolist(), hints["fence"].tolist(), strict=True)
        keys = [f"{self._prefix}{{{job_id.hex()}:{at_ms}:{fence}}}".encode() for job_id, at_ms, fence in runs]
        return await run_script(self._servers, _LEASE, [(key, (self._holder, length_ms)) for key in keys])


def open_redis_brief_leases(url: str, clock: Clock, *, cluster: str, holder: str) -> RedisBriefLeases:
    """Nothing is sent yet. Raises `ConfigError` for a URL that can't be understood."""
    return RedisBriefLeases(read_address(url, setting="lease_cache"), clock, cluster=cluster, holder=holder)
