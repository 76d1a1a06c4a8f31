"""Delays in their table, and the runs before a run; see `ports.explaining`."""

from collections.abc import Sequence
from typing import Any, Final

from tickwheel.adapters.postgresql import runs
from tickwheel.adapters.postgresql.arrays import int2s, int8s, texts
from tickwheel.adapters.postgresql.batches import storable
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.ports.explaining import DELAYS_FOUND, Wanted
from tickwheel.ports.store import Run

SQL: Final = load_statements("delays")


class PostgresqlExplaining:
    """Implements `ports.explaining.ExplainingStore`; a part of `PostgresqlStore`."""

    _readers: Lines
    _writers: Lines

    async def note_delays(self, delays: Sequence[Delay]) -> None:
        if delays:
            # One statement can't write a row twice.
            latest = {(delay.kind, delay.subject, delay.node, delay.from_ms): delay for delay in delays}
            bindings = _columns(list(latest.values()))
            await self._writers.submit(lambda session: session.write_count(SQL["note"], bindings), writes=True)

    async def find_delays(self, wanted: Sequence[Wanted], from_ms: int, until_ms: int) -> Sequence[Delay]:
        if not wanted:
            return []
        bindings = {
            "kinds": texts([kind for kind, _ in wanted]),
            "subjects": texts([storable(subject or "") for _, subject in wanted]),
            "any": int2s([int(subject is None) for _, subject in wanted]),
            "from_ms": from_ms,
            "until_ms": until_ms,
            "limit": DELAYS_FOUND,
        }
        return await self._readers.submit(lambda session: _find(session, bindings))

    async def trim_delays(self, before_ms: int, limit: int) -> int:
        bindings = {"before_ms": before_ms, "limit": limit}
        return await self._writers.submit(lambda session: session.write_count(SQL["trim"], bindings), writes=True)

    async def runs_before(self, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> Sequence[Run]:
        return await self._readers.submit(
            lambda session: runs.runs_before(session, tenant_id, job_id, instant_ms, limit)
        )


def _columns(delays: Sequence[Delay]) -> dict[str, Any]:
    return {
        "kinds": texts([delay.kind for delay in delays]),
        "subjects": texts([storable(delay.subject) for delay in delays]),
        "nodes": texts([storable(delay.node) for delay in delays]),
        "from_ms": int8s([delay.from_ms for delay in delays]),
        "until_ms": int8s([delay.until_ms for delay in delays]),
        "details": texts([storable(delay.detail) for delay in delays]),
        "shards": texts([delay.shards for delay in delays]),
    }


def _find(session: Session, bindings: dict[str, Any]) -> list[Delay]:
    return [Delay(DelayKind(kind), *rest) for kind, *rest in session.rows(SQL["find"], bindings)]
