"""Definitions come back as they were stored, whatever is in their texts."""

import pytest
from tests.adapters.sqlite.jobs import one_off

from tickwheel.adapters.sqlite import SqliteStore

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
