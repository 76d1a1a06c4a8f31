"""Stores of notices that are away, or answer that they are after they have written."""

import asyncio
from collections.abc import Mapping, Sequence

from tickwheel.ports.notices import GroupKey, Groups, Notice, NoticeStore
from tickwheel.ports.store import JobView, RunPage
from tickwheel.services.notifying.intake import ReadsJobs


class Passing:
    """Hands every verb on."""

    def __init__(self, store: NoticeStore) -> None:
        self._store = store

    async def add_notices(self, notices: Sequence[Notice]) -> None:
        await self._store.add_notices(notices)

    async def notices(self, limit: int) -> Sequence[Notice]:
        return await self._store.notices(limit)

    async def notice_groups(self) -> Groups:
        return await self._store.notice_groups()

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        return await self._store.settle_notices(version, done=done, put=put, drop=drop)


class CutOff(Passing):
    """Between `pause` and `go_on`, whoever reads gets no answer; then it is what was true before."""

    def __init__(self, store: NoticeStore) -> None:
        super().__init__(store)
        self._goes = asyncio.Event()
        self.go_on()

    def pause(self) -> None:
        self._goes.clear()

    def go_on(self) -> None:
        self._goes.set()

    async def notices(self, limit: int) -> Sequence[Notice]:
        found = await super().notices(limit)
        await self._goes.wait()
        return found


class AnsweringLate(Passing):
    """`fails`: settling raises `error`, after it was done or (`does_write` false) without."""

    fails = False
    does_write = False

    def __init__(self, store: NoticeStore, error: Exception) -> None:
        super().__init__(store)
        self._error = error

    async def settle_notices(
        self, version: int, *, done: Sequence[int], put: Mapping[GroupKey, str], drop: Sequence[GroupKey]
    ) -> bool:
        if not self.fails:
            return await super().settle_notices(version, done=done, put=put, drop=drop)
        if self.does_write:
            await super().settle_notices(version, done=done, put=put, drop=drop)
        raise self._error


class Lagging:
    """Readers of jobs, of which none is known while it `lags`."""

    lags = False

    def __init__(self, store: ReadsJobs) -> None:
        self._store = store

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        return None if self.lags else await self._store.get_job(tenant_id, job_id)

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return await self._store.list_runs(tenant_id, job_id, limit, after)
