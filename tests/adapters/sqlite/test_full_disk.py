"""A full or failing disk refuses writes clearly, keeps what was written, and is forgotten once it has room."""

import asyncio
import os
import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from tickwheel.adapters.sqlite import SqliteStore
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.domain.errors import StoreUnavailable

from .jobs import one_off, query

BIG = '"' + "x" * 50_000 + '"'


async def limit_pages(store: SqliteStore, count: int) -> None:
    def limit(session: Session) -> None:
        session.value(f"PRAGMA max_page_count = {count}")

    await store._writer.submit(limit)


async def test_a_full_disk_refuses_and_recovers(store: SqliteStore) -> None:
    await store.insert_jobs([one_off(0)])
    await limit_pages(store, 100)
    refusals = []
    for number in range(1, 30):
        try:
            await store.insert_jobs([one_off(number, payload=BIG)])
        except StoreUnavailable as error:
            refusals.append(error)
    assert refusals
    assert all("disk is full" in str(error) and type(error) is StoreUnavailable for error in refusals)
    stored = (await store.counts()).jobs
    assert stored == 30 - len(refusals), "what was refused was not written, what was answered was"
    await limit_pages(store, 1 << 30)
    await store.insert_jobs([one_off(number, payload=BIG) for number in range(30, 40)])
    assert (await store.counts()).jobs == stored + 10


async def test_neighbours_in_a_group_that_the_full_disk_ended_are_told(store: SqliteStore) -> None:
    await limit_pages(store, 100)
    answers = await asyncio.gather(
        *(store.insert_jobs([one_off(number, payload=BIG)]) for number in range(30)), return_exceptions=True
    )
    failed = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
    assert failed
    assert len(failed) + (await store.counts()).jobs == 30


async def test_a_failing_file_system_refuses_and_recovers(store: SqliteStore, folder: Path) -> None:
    await store.insert_jobs([one_off(0)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal_bytes = (folder / "tickwheel.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal_bytes + 20_000, hard))
    try:
        with pytest.raises(StoreUnavailable):
            await store.insert_jobs([one_off(number, payload=BIG) for number in range(1, 10)])
        with pytest.raises(StoreUnavailable):
            await store.insert_jobs([one_off(number, payload=BIG) for number in range(1, 10)])
        assert (await store.counts()).jobs == 1, "reads go on"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.check()
    await store.insert_jobs([one_off(10)])
    await store.aclose()
    assert query(folder, "SELECT name FROM jobs ORDER BY name") == [("job-0",), ("job-10",)]
    assert query(folder, "PRAGMA integrity_check") == [("ok",)]


async def test_the_check_tells_a_disk_that_has_room_for_the_check_only(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for free_bytes, is_full in ((8_192, True), (1 << 30, False)):
        found = SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096, f_blocks=1 << 20)
        monkeypatch.setattr(os, "statvfs", lambda path, found=found: found)
        if is_full:
            with pytest.raises(StoreUnavailable, match=r"the disk is full \(8 KiB are free\)"):
                await store.check()
        else:
            await store.check()


async def test_the_check_really_writes(store: SqliteStore, folder: Path) -> None:
    await store.insert_jobs([one_off(0)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / "tickwheel.db-wal").stat().st_size, hard))
    try:
        with pytest.raises(StoreUnavailable):
            await store.check()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.check()
    assert (await store.counts()).jobs == 1
