"""Single jobs that come while a commit is under way share the next one."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tickwheel.adapters.postgresql import insert
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.store import GATHERED_BELOW
from tickwheel.ports.audit_entries import Call
from tickwheel.ports.store import Inserted, InsertStatus, NewJob

from .calendar import Calendar


class HeldInserts:
    """The store's inserts, of which the first one waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.begun, self.let_go = threading.Event(), threading.Event()
        self._insert = insert.insert_jobs
        monkeypatch.setattr(insert, "insert_jobs", self)

    def __call__(
        self, session: Session, jobs: Sequence[NewJob], pin_ms: int | None, calls: Sequence[Call]
    ) -> list[Inserted]:
        self.sizes.append(len(jobs))
        if len(self.sizes) == 1:
            self.begun.set()
            assert self.let_go.wait(20)
        return self._insert(session, jobs, pin_ms, calls)


async def test_single_jobs_that_come_during_a_commit_share_the_next(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, loop = HeldInserts(monkeypatch), asyncio.get_running_loop()
    jobs = [calendar.arena.one_off() for _ in range(41)]
    first = asyncio.ensure_future(calendar.store.insert_jobs(jobs[:1]))
    await loop.run_in_executor(None, held.begun.wait, 20)
    others = [asyncio.ensure_future(calendar.store.insert_jobs([new])) for new in jobs[1:]]
    await asyncio.sleep(0)
    held.let_go.set()
    answers = [answer for [answer] in await asyncio.gather(first, *others)]
    assert [answer.status for answer in answers] == [InsertStatus.CREATED] * len(jobs)
    assert held.sizes == [1, 40]


async def test_a_single_job_does_not_wait_behind_a_batch(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, loop = HeldInserts(monkeypatch), asyncio.get_running_loop()
    large = [calendar.arena.one_off() for _ in range(GATHERED_BELOW)]
    batch = asyncio.gather(calendar.store.insert_jobs(large))
    await loop.run_in_executor(None, held.begun.wait, 20)
    [single] = await calendar.store.insert_jobs([calendar.arena.one_off()])
    assert single.status is InsertStatus.CREATED
    assert not batch.done()
    held.let_go.set()
    [answers] = await batch
    assert len(answers) == GATHERED_BELOW
