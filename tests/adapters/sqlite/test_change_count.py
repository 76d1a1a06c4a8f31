"""A claim looks at its jobs again exactly when some job was changed since they were read."""

import asyncio
from collections.abc import AsyncIterator
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adapters.sqlite.jobs import DUE_MS, one_off

from tickwheel.adapters.sqlite import SqliteStore, changes, claim
from tickwheel.adapters.sqlite.change_count import ChangeCount
from tickwheel.domain.columns import CLAIM, ClaimVerdict, Rows, empty
from tickwheel.domain.errors import NotFound
from tickwheel.domain.ids import shard_of
from tickwheel.domain.run import fencing_token
from tickwheel.ports.store import Change, JobView, NewJob, WorkDefinition
from tickwheel.services.plans import note_unchanged

NOW_MS = DUE_MS + 1_000


class Owner:
    """Reads definitions and claims with them, in two steps."""

    def __init__(self, store: SqliteStore, epochs: Any) -> None:
        self.store, self.epochs, self.sequence = store, epochs, 0

    def claims(self, *jobs: NewJob) -> Rows:
        rows = empty(CLAIM, len(jobs))
        for number, new in enumerate(jobs):
            self.sequence += 1
            job_id, due_ms = new.job.job_id, new.job.scheduled_ms or 0
            fence = fencing_token(int(self.epochs[shard_of(job_id)]), self.sequence)
            rows[number] = (due_ms, job_id, due_ms, 1, new.job.timer_flags, 0, 0, 0, 4, fence, -1, 0, 0, 0, 0)
        return rows

    async def read(self, *jobs: NewJob) -> list[WorkDefinition | None]:
        return list(await self.store.load_work([new.job.job_id for new in jobs]))

    async def claim(self, jobs: list[NewJob], works: list[WorkDefinition | None]) -> list[tuple[int, int]]:
        """Verdict and the version that the claim tells the starter, which reads another one again."""
        rows = self.claims(*jobs)
        note_unchanged(rows, works)
        answers = await self.store.claim(rows, NOW_MS, NOW_MS + 30_000)
        return list(zip(answers["verdict"].tolist(), answers["version"].tolist(), strict=True))


@pytest.fixture
async def owner(store: SqliteStore) -> AsyncIterator[Owner]:
    epochs = await store.acquire("w")
    yield Owner(store, epochs)
    await store.check()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which statements claims run."""
    names: list[str] = []

    class Watched(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            names.append(name)
            return super().__getitem__(name)

    monkeypatch.setattr(claim, "SQL", Watched(claim.SQL))
    return names


WON, EDITED, TAKEN = (ClaimVerdict.WON, 1), (ClaimVerdict.WON, 2), (ClaimVerdict.IN_FLIGHT, 1)


def edit(view: JobView, now_ms: int) -> Change:
    """Only the job's own row: nothing in the ledger tells a claim."""
    return Change(job=replace(view.job, payload="[]", version=view.job.version + 1))


async def test_claim_of_unchanged_jobs_does_not_look_at_them(owner: Owner, used: list[str]) -> None:
    jobs = [one_off(number) for number in range(3)]
    await owner.store.insert_jobs(jobs)
    works = await owner.read(*jobs)
    await owner.store.insert_jobs([one_off(9)])  # a new job is no change
    assert await owner.claim(jobs, works) == [WON] * 3
    assert used == ["claim_seen"]
    [run] = await owner.store.find_runs([(jobs[0].job.job_id, DUE_MS)])
    assert run is not None
    assert (run.lane, run.armed_ms is not None) == (jobs[0].job.lane, True)


async def test_job_edited_after_it_was_read_is_read_again(owner: Owner, used: list[str]) -> None:
    jobs = [one_off(number) for number in range(2)]
    await owner.store.insert_jobs(jobs)
    works = await owner.read(*jobs)
    await owner.store.change_job("default", jobs[0].job.job_id, edit)
    verdicts = await owner.claim(jobs, works)
    assert verdicts == [EDITED, WON]
    assert "claim_seen" not in used


async def test_claim_behind_the_change_in_one_transaction_looks(owner: Owner, used: list[str]) -> None:
    jobs = [one_off(number) for number in range(2)]
    await owner.store.insert_jobs(jobs)
    works = await owner.read(*jobs)
    changed = asyncio.create_task(owner.store.change_job("default", jobs[0].job.job_id, edit))
    claimed = asyncio.create_task(owner.claim(jobs, works))
    await changed
    assert await claimed == [EDITED, WON]
    assert "claim_seen" not in used


async def test_read_between_a_change_and_its_commit_does_not_count_as_newer(
    owner: Owner, used: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [one_off(number) for number in range(2)]
    await owner.store.insert_jobs(jobs)
    written, go_on, change_job = asyncio.Event(), Event(), changes.change_job
    loop = asyncio.get_running_loop()

    def change_slowly(*arguments: Any) -> Any:
        answer = change_job(*arguments)
        loop.call_soon_threadsafe(written.set)
        go_on.wait(10)
        return answer

    monkeypatch.setattr(changes, "change_job", change_slowly)
    changed = asyncio.create_task(owner.store.change_job("default", jobs[0].job.job_id, edit))
    await written.wait()
    works = await owner.read(*jobs)  # still as it was
    assert works[0] is not None
    assert works[0].payload == "{}"
    go_on.set()
    await changed
    assert await owner.claim(jobs, works) == [EDITED, WON]
    assert "claim_seen" not in used


async def test_run_that_is_there_already_is_left_to_whoever_has_it(owner: Owner, used: list[str]) -> None:
    jobs = [one_off(number) for number in range(3)]
    await owner.store.insert_jobs(jobs)
    works = await owner.read(*jobs)
    assert await owner.claim(jobs[:1], works[:1]) == [WON]
    verdicts = await owner.claim(jobs, works)
    assert verdicts == [TAKEN, WON, WON]


async def test_change_that_fails_leaves_claims_as_safe_as_before(owner: Owner, used: list[str]) -> None:
    jobs = [one_off(1)]
    await owner.store.insert_jobs(jobs)

    def refuse(view: JobView, now_ms: int) -> Change:
        raise NotFound("no")

    works = await owner.read(*jobs)
    with pytest.raises(NotFound):
        await owner.store.change_job("default", jobs[0].job.job_id, refuse)
    assert await owner.claim(jobs, works) == [WON]
    works = await owner.read(*jobs)
    assert works[0] is not None
    assert works[0].changes == 3


def test_count_rises_once_more_after_the_transaction_of_a_change() -> None:
    count = ChangeCount()
    count.settle()
    assert count.value == 1
    count.rise()
    count.rise()
    assert count.value == 3
    count.settle()
    count.settle()
    assert count.value == 4
