"""Delays in their table, and the runs before a run; see `ports.explaining`."""

from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.sqlite import runs
from tickwheel.adapters.sqlite.codec import pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.writer import Writer
from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.ports.explaining import DELAYS_FOUND, Wanted
from tickwheel.ports.store import Run

SQL: Final = load_statements("delays")


class SqliteExplaining:
    """Implements `ports.explaining.ExplainingStore`; a part of `SqliteStore`."""

    _reader: Reader
    _writer: Writer

    async def note_delays(self, delays: Sequence[Delay]) -> None:
        if delays:
            rows = pack_rows(
                [(d.kind, d.subject, d.node, d.from_ms, d.until_ms, d.detail, d.shards) for d in delays]
            )
            await self._writer.submit(lambda session: session.run(SQL["note"], {"rows": rows}), len(delays))

    async def find_delays(self, wanted: Sequence[Wanted], from_ms: int, until_ms: int) -> Sequence[Delay]:
        bindings = {"from_ms": from_ms, "until_ms": until_ms, "limit": DELAYS_FOUND, "wanted": pack_rows(wanted)}
        return await self._reader.read(lambda session: _find(session, bindings)) if wanted else []

    async def trim_delays(self, before_ms: int, limit: int) -> int:
        return await self._writer.submit(lambda session: session.run(SQL["trim"], (before_ms, limit)), limit)

    async def runs_before(self, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> Sequence[Run]:
        return await self._reader.read(
            lambda session: runs.runs_before(session, tenant_id, job_id, instant_ms, limit)
        )


def _find(session: Session, bindings: dict[str, object]) -> list[Delay]:
    return [Delay(DelayKind(kind), *rest) for kind, *rest in session.table(SQL["find"], bindings)]
