"""Notices and their groups in dictionaries; see `ports.notices`."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.ports.notices import GroupKey, Groups, Notice


class MemoryNotices:
    """Implements `ports.notices.NoticeStore`; a part of `MemoryStore`."""

    _tables: Tables

    async def add_notices(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._tables.note(notice)

    async def notices(self, limit: int) -> Sequence[Notice]:
        stored = sorted(self._tables.notices.items())[:limit]
        return [replace(notice, number=number) for number, notice in stored]

    async def notice_groups(self) -> Groups:
        return Groups(self._tables.groups_version, dict(self._tables.notice_groups))

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        tables = self._tables
        if version != tables.groups_version:
            return False
        for number in done:
            tables.notices.pop(number, None)
        for key in drop:
            tables.notice_groups.pop(key, None)
        tables.notice_groups.update(put)
        tables.groups_version += 1
        return True
