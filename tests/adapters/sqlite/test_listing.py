"""Pages stay stable while jobs come and go, and never look at more than their budget."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tickwheel.adapters.sqlite import SqliteStore, lists
from tickwheel.domain.columns import CLAIM, COMPLETION, ClaimVerdict, empty
from tickwheel.domain.errors import BadCursor
from tickwheel.domain.ids import shard_of
from tickwheel.domain.run import RunState, SkipReason, fencing_token
from tickwheel.ports import job_lists
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.store import Change, FirstTimer, JobOrder, JobQuery, JobView, LedgerWrite, NewJob
from tickwheel.testing.virtual_clock import VirtualClock

from .jobs import DUE_MS, one_off, query


async def walk(store: SqliteStore, asked: JobQuery) -> tuple[list[str], int]:
    """Names of all jobs, page by page, and how many pages that took."""
    names: list[str] = []
    pages, after = 0, None
    while True:
        page = await store.list_jobs(replace(asked, after=after))
        names += [view.job.name for view in page.items]
        pages, after = pages + 1, page.next_cursor
        if after is None:
            return names, pages


@pytest.mark.pitfall(77)
@pytest.mark.parametrize("order", list(JobOrder))
async def test_pages_neither_repeat_nor_hide_a_job_while_others_come(store: SqliteStore, order: JobOrder) -> None:
    await store.insert_jobs([one_off(number) for number in range(0, 300, 3)])
    seen: list[str] = []
    after, newcomer = None, 1
    while True:
        asked = JobQuery(tenant_id="default", limit=7, order=order, after=after)
        page = await store.list_jobs(asked)
        seen += [view.job.name for view in page.items]
        after = page.next_cursor
        await store.insert_jobs([one_off(newcomer), one_off(newcomer + 1)])
        newcomer += 3
        if after is None:
            break
    old = [name for name in seen if int(name.removeprefix("job-")) % 3 == 0]
    assert len(seen) == len(set(seen))
    assert sorted(old) == sorted(f"job-{number}" for number in range(0, 300, 3))


@pytest.mark.pitfall(77)
async def test_a_filter_that_matches_little_gives_short_pages_but_misses_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "BUDGET", 40)
    monkeypatch.setattr(lists, "CHUNK", 10)
    await store.insert_jobs([one_off(n, lane=n % 100 == 7) for n in range(300)])
    names, pages = await walk(store, JobQuery(tenant_id="default", limit=50, lane=1))  # type: ignore[arg-type]
    assert names == ["job-207", "job-107", "job-7"]
    assert 300 // 40 <= pages <= 300 // 40 + 1


async def test_a_name_prefix_that_many_jobs_have_is_walked_in_order_of_creation(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "SET_LIMIT", 5)
    await store.insert_jobs([one_off(n, name=f"{'mail' if n % 2 else 'post'}-{n}") for n in range(40)])
    names, _ = await walk(store, JobQuery(tenant_id="default", limit=6, name_prefix="mail-"))
    assert names == [f"mail-{n}" for n in range(39, 0, -2)]
    names, _ = await walk(store, JobQuery(tenant_id="default", limit=6, name_prefix="mail-3"))
    assert names == [f"mail-{n}" for n in (39, 37, 35, 33, 31, 3)]


async def test_due_order_skips_other_tenants_and_claimed_occurrences(store: SqliteStore) -> None:
    mine = [one_off(n) for n in (5, 3, 4)]
    await store.insert_jobs([*mine, one_off(1, tenant_id="other")])
    names, _ = await walk(store, JobQuery(tenant_id="default", limit=2, order=JobOrder.DUE))
    assert names == ["job-3", "job-4", "job-5"]


NO_FILTERS = (None,) * 7
DUE, CREATED = (bound_kind(kind, "default", *NO_FILTERS) for kind in ("due", "created"))


@pytest.mark.parametrize(
    "text",
    ["", "x", "!!!!", "AAAA", "é", write_cursor(DUE, 1, b"x"), write_cursor(CREATED, 5), "W10", "eyJhIjoxfQ"],
)
async def test_foreign_cursors_are_refused(store: SqliteStore, text: str) -> None:
    with pytest.raises(BadCursor):
        await store.list_jobs(JobQuery(tenant_id="default", after=text))


def test_cursors_hold_what_was_put_in() -> None:
    text = write_cursor("due", 1 << 60, bytes(14) + b"\x00\xff")
    assert read_cursor("due", text, (int, bytes)) == [1 << 60, bytes(14) + b"\x00\xff"]
    with pytest.raises(BadCursor):
        read_cursor("due", write_cursor("due", 1 << 63, bytes(16)), (int, bytes))


async def finish(store: SqliteStore, new: NewJob, due_ms: int, gen: int) -> None:
    """Claim the run of that timer and complete it."""
    epochs = await store.acquire("w")
    fence = fencing_token(int(epochs[shard_of(new.job.job_id)]), 1)
    claims = empty(CLAIM, 1)
    claims[0] = (due_ms, new.job.job_id, due_ms, gen, new.job.timer_flags, 0, 0, 0, 4, fence, -1, 0, 0, 0, 0)
    assert (await store.claim(claims, due_ms, due_ms + 9))["verdict"].tolist() == [ClaimVerdict.WON]
    ends = empty(COMPLETION, 1)
    ends[0] = (due_ms, new.job.job_id, due_ms, gen, 2, fence, RunState.SUCCEEDED, 0, 0, 0, 1, 0, 5, 6, -1)
    assert (await store.complete(ends, {})).applied.all()


async def test_a_one_off_moved_to_an_earlier_instant_is_shown_by_the_run_that_counts(
    store: SqliteStore, clock: VirtualClock
) -> None:
    new = one_off(1_000)
    await store.insert_jobs([new])
    earlier_ms = DUE_MS + 10

    def move(view: JobView, now_ms: int) -> Change:
        superseded = LedgerWrite(DUE_MS + 1_000, RunState.SKIPPED, SkipReason.SUPERSEDED)
        job = replace(view.job, version=2, scheduled_ms=earlier_ms)
        return Change(job=job, drop_live=True, timer=FirstTimer(earlier_ms, earlier_ms, 2), runs=(superseded,))

    await store.change_job("default", new.job.job_id, move)
    clock.step_ms(50)
    await finish(store, new, earlier_ms, 2)
    view = await store.get_job("default", new.job.job_id)
    assert view is not None
    assert view.last_run is not None
    assert (view.last_run.scheduled_ms, view.last_run.state) == (earlier_ms, RunState.SUCCEEDED)
    names, _ = await walk(store, JobQuery(tenant_id="default", status="SUCCEEDED"))
    assert names == ["job-1000"]
    runs = (await store.list_runs("default", new.job.job_id, 10, None)).items
    assert [run.scheduled_ms for run in runs] == [DUE_MS + 1_000, earlier_ms]


async def test_totals_are_counters_that_survive_a_restart(store: SqliteStore, folder: Path) -> None:
    await store.insert_jobs([one_off(n) for n in range(20)])
    await finish(store, one_off(3), DUE_MS + 3, 1)
    counts = await store.counts()
    assert (counts.jobs, counts.waiting, counts.dead_letters) == (20, 19, 0)
    assert query(folder, "SELECT jobs, waiting, dead_letters FROM totals") == [(20, 19, 0)]


@pytest.mark.parametrize("order", list(JobOrder))
async def test_long_payloads_make_short_pages(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, order: JobOrder
) -> None:
    monkeypatch.setattr(job_lists, "PAGE_BYTES", 10_000)
    long = '"' + "x" * 4_000 + '"'
    too_long = '"' + "x" * 20_000 + '"'
    await store.insert_jobs([one_off(n, payload=too_long if n == 4 else long) for n in range(9)])
    names, pages = await walk(store, JobQuery(tenant_id="default", limit=50, order=order))
    assert sorted(names) == [f"job-{n}" for n in range(9)]
    assert pages == 5, "two at a time, and the one that is too long alone"
