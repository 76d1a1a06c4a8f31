"""Delays in a dictionary, and the runs before a run; see `ports.explaining`."""

from collections.abc import Sequence

from tickwheel.adapters.memory import listings
from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.delays import Delay
from tickwheel.ports.explaining import DELAYS_FOUND, Wanted
from tickwheel.ports.store import Run


class MemoryExplaining:
    """Implements `ports.explaining.ExplainingStore`; a part of `MemoryStore`."""

    _tables: Tables

    async def note_delays(self, delays: Sequence[Delay]) -> None:
        for delay in delays:
            self._tables.delays[delay.kind, delay.subject, delay.node, delay.from_ms] = delay

    async def find_delays(self, wanted: Sequence[Wanted], from_ms: int, until_ms: int) -> Sequence[Delay]:
        found = [
            delay
            for delay in self._tables.delays.values()
            if delay.from_ms < until_ms
            and delay.until_ms > from_ms
            and any(delay.kind is kind and subject in (None, delay.subject) for kind, subject in wanted)
        ]
        return sorted(found, key=_from)[-DELAYS_FOUND:]

    async def trim_delays(self, before_ms: int, limit: int) -> int:
        over = [key for key, delay in self._tables.delays.items() if delay.until_ms < before_ms][:limit]
        for key in over:
            del self._tables.delays[key]
        return len(over)

    async def runs_before(self, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> Sequence[Run]:
        return listings.runs_before(self._tables, tenant_id, job_id, instant_ms)[:limit]


def _from(delay: Delay) -> tuple[int, str, str]:
    return delay.from_ms, delay.kind, delay.subject
