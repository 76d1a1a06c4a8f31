"""Notices and their groups in their tables; see `ports.notices`."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tickwheel.adapters.sqlite.codec import pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.writer import Writer
from tickwheel.ports.notices import GroupKey, Groups, Notice

SQL: Final = load_statements("notices")


class SqliteNotices:
    """Implements `ports.notices.NoticeStore`; a part of `SqliteStore`."""

    _reader: Reader
    _writer: Writer

    async def add_notices(self, notices: Sequence[Notice]) -> None:
        rows = pack_rows(
            [(n.kind, n.tenant_id, n.job_id.hex(), n.scheduled_ms, n.at_ms, n.subject, n.detail) for n in notices]
        )
        await self._writer.submit(lambda session: session.run(SQL["add"], {"rows": rows}), len(notices))

    async def notices(self, limit: int) -> Sequence[Notice]:
        return await self._reader.read(
            lambda session: [
                Notice(kind, tenant_id, bytes.fromhex(job_id), *rest)
                for kind, tenant_id, job_id, *rest in session.table(SQL["oldest"], (limit,))
            ]
        )

    async def notice_groups(self) -> Groups:
        return await self._reader.read(_groups, snapshot=True)

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        return await self._writer.submit(
            lambda session: _settle(session, version, done, put, drop), len(done) + len(put) + len(drop)
        )


def _groups(session: Session) -> Groups:
    rows = session.table(SQL["groups"])
    return Groups(session.value(SQL["version"]), {GroupKey(*key): body for *key, body in rows})


def _settle(
    session: Session, version: int, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
) -> bool:
    if not session.run(SQL["rise"], (version,)):
        return False
    session.run(SQL["take_away"], {"numbers": msgspec.json.encode(done).decode()})
    session.run(SQL["drop_groups"], {"rows": pack_rows(drop)})
    session.run(SQL["put_groups"], {"rows": pack_rows([(*key, body) for key, body in put.items()])})
    return True
