"""Definitions come back as they were stored, whatever is in their texts."""

import asyncio
from threading import Event
from typing import Any

import pytest
from tests.adapters.sqlite.jobs import one_off

from tickwheel.adapters.sqlite import SqliteStore, load

TEXTS = ['{"a":"b"}', "", '{"name":"Zoë – 日本 \U0001f600"}', '"\\u0000\\\\"', "nul\0inside", "x" * 70_000, "{}"]


@pytest.mark.pitfall(70)
async def test_each_definition_has_its_own_payload_byte_by_byte(store: SqliteStore) -> None:
    jobs = [one_off(number, payload=text, name=f"a,b\n{number}") for number, text in enumerate(TEXTS, 1)]
    await store.insert_jobs(jobs)
    missing = one_off(99)
    wanted = [jobs[-1], missing, *jobs, missing, jobs[2]]
    works = await store.load_work([new.job.job_id for new in wanted])
    assert [work and (work.name, work.payload) for work in works] == [
        None if new is missing else (new.job.name, new.job.payload) for new in wanted
    ]


async def test_definitions_are_read_while_a_page_of_timers_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page takes as long as a hundred claims: before them in one queue it would hold each of them up."""
    new, go_on, load_timers = one_off(1), Event(), load.load_timers
    await store.insert_jobs([new])

    def load_slowly(*arguments: Any) -> Any:
        go_on.wait(10)
        return load_timers(*arguments)

    monkeypatch.setattr(load, "load_timers", load_slowly)
    loading = asyncio.create_task(store.load_timers(0, 1 << 62, 10))
    await asyncio.sleep(0)
    [work] = await store.load_work([new.job.job_id])
    assert work is not None
    assert not loading.done()
    go_on.set()
    assert len(await loading) == 1
