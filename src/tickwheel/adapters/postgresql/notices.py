"""Notices and their groups in their tables; see `ports.notices`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tickwheel.adapters.postgresql.arrays import int8s, texts, uuids_of
from tickwheel.adapters.postgresql.batches import storable
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.ports.notices import GroupKey, Groups, Notice

SQL: Final = load_statements("notices")
_NO_JOB: Final = bytes(16)


class PostgresqlNotices:
    """Implements `ports.notices.NoticeStore`; a part of `PostgresqlStore`.

    Nothing is read where reads may be sent elsewhere (`store_reads`): what was taken away must not come once more.
    """

    _writers: Lines

    async def add_notices(self, notices: Sequence[Notice]) -> None:
        bindings = {
            "kinds": texts([notice.kind for notice in notices]),
            "tenant_ids": texts([storable(notice.tenant_id) for notice in notices]),
            "job_ids": uuids_of([notice.job_id or _NO_JOB for notice in notices]),
            "scheduled_ms": int8s([notice.scheduled_ms for notice in notices]),
            "at_ms": int8s([notice.at_ms for notice in notices]),
            "subjects": texts([storable(notice.subject) for notice in notices]),
            "details": texts([storable(notice.detail) for notice in notices]),
        }
        await self._writers.submit(lambda session: session.write_count(SQL["add"], bindings), writes=True)

    async def notices(self, limit: int) -> Sequence[Notice]:
        return await self._writers.submit(lambda session: _oldest(session, limit))

    async def notice_groups(self) -> Groups:
        return await self._writers.submit(_groups)

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        return await self._writers.submit(lambda session: _settle(session, version, done, put, drop), writes=True)


def _oldest(session: Session, limit: int) -> list[Notice]:
    return [
        Notice(kind, tenant_id, b"" if job_id.bytes == _NO_JOB else job_id.bytes, *rest)
        for kind, tenant_id, job_id, *rest in session.rows(SQL["oldest"], {"limit": limit})
    ]


def _groups(session: Session) -> Groups:
    """The version first: what changes in between is met by the next `settle_notices`."""
    versions = session.rows(SQL["version"])
    bodies = {GroupKey(*key): body for *key, body in session.rows(SQL["groups"])}
    return Groups(versions[0][0] if versions else 0, bodies)


def _settle(
    session: Session, version: int, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
) -> bool:
    with session.transaction():
        if not session.rows(SQL["rise"], {"version": version}):
            return False
        session.run(SQL["take_away"], {"numbers": int8s(list(done))})
        session.run(SQL["drop_groups"], _columns(drop))
        session.run(SQL["put_groups"], _columns(put) | {"bodies": texts(list(put.values()))})
    return True


def _columns(keys: Iterable[GroupKey]) -> dict[str, Any]:
    keys = list(keys)
    return {
        "tenant_ids": texts([storable(key.tenant_id) for key in keys]),
        "rules": texts([storable(key.rule) for key in keys]),
        "subjects": texts([storable(key.subject) for key in keys]),
    }
