"""Nodes of a version without buckets of tenants go on beside newer ones: they hold a job's flags in one byte."""

from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import FLAG_KIND_MASK
from tickwheel.ports.store import Change, JobView
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena
from ...servers.postgresql_databases import emptied_store
from .backend import UrlBackend


@pytest.fixture
def url() -> str:
    return emptied_store()


@pytest.fixture
async def arena(url: str) -> AsyncIterator[Arena]:
    clock = VirtualClock()
    arena = Arena(UrlBackend(url, clock), clock)
    await arena.open()
    yield arena
    await arena.store.aclose()


def rename(view: JobView, now_ms: int) -> Change:
    return Change(job=replace(view.job, name="renamed", version=view.job.version + 1))


async def test_flags_of_jobs_fit_into_a_byte_however_they_are_written(arena: Arena, url: str) -> None:
    once, often = arena.one_off(), arena.recurring()
    assert once.job.timer_flags > 0xFF, "those of timers do not"
    await arena.insert(once)
    await arena.insert(often)
    await arena.insert(*(arena.one_off(arena.now_ms + 1) for _ in range(70)))
    await arena.insert(*(arena.one_off(arena.now_ms + 1, tenant_id=f"tenant-{n % 2}") for n in range(70)))
    await arena.store.change_job(often.job.tenant_id, often.job.job_id, rename)
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT DISTINCT flags FROM tickwheel.jobs").fetchall()
        assert rows
        assert all(flags & ~FLAG_KIND_MASK == 0 for (flags,) in rows)
