"""One process per folder; schema versions."""

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tickwheel.adapters.sqlite import SqliteStore, open_sqlite_store, pending_migrations
from tickwheel.adapters.sqlite.folder import find_open_paths
from tickwheel.domain.errors import ConfigError, StoreUnavailable
from tickwheel.testing.virtual_clock import VirtualClock

from .jobs import one_off, query

HOLDER = """
import asyncio, os, sys
from pathlib import Path
from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.adapters.system import SystemClock

async def main():
    await open_sqlite_store(Path(sys.argv[1]), SystemClock())
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)

asyncio.run(main())
"""


async def test_a_folder_in_use_by_another_process_is_refused_with_its_pid(
    folder: Path, clock: VirtualClock
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        pid = holder.stdout.readline().strip()
        assert pid == str(holder.pid)
        with pytest.raises(ConfigError, match=f"already in use by pid {pid}"):
            await open_sqlite_store(folder, clock)
    finally:
        holder.kill()
        holder.communicate()
    store = await open_sqlite_store(folder, clock)  # the lock died with its holder
    await store.aclose()


async def test_the_same_process_cannot_open_a_folder_twice(
    store: SqliteStore, folder: Path, clock: VirtualClock
) -> None:
    with pytest.raises(ConfigError, match="already in use"):
        await open_sqlite_store(folder, clock)
    await store.insert_jobs([one_off(1)])  # the holder goes on


async def test_a_folder_can_be_opened_again_after_closing(folder: Path, clock: VirtualClock) -> None:
    for number in range(3):
        store = await open_sqlite_store(folder, clock)
        await store.insert_jobs([one_off(number)])
        assert (await store.counts()).jobs == number + 1
        await store.aclose()


async def test_a_newer_schema_is_refused_and_left_alone(folder: Path, clock: VirtualClock) -> None:
    store = await open_sqlite_store(folder, clock)
    await store.insert_jobs([one_off(1)])
    await store.aclose()
    connection = apsw.Connection(str(folder / "tickwheel.db"))
    connection.execute("INSERT INTO migrations VALUES (9999, 'pre_future', 0)")
    connection.close()
    with pytest.raises(ConfigError, match="schema version 9999, this program knows"):
        await open_sqlite_store(folder, clock)
    with pytest.raises(ConfigError, match="9999"):
        pending_migrations(folder)
    assert query(folder, "SELECT count(*) FROM jobs") == [(1,)]
    (folder / "tickwheel.lock").open().close()
    with pytest.raises(ConfigError, match="9999"):  # and the lock was let go
        await open_sqlite_store(folder, clock)


async def test_pending_migrations_are_planned_without_touching_the_folder(
    folder: Path, clock: VirtualClock
) -> None:
    plan = pending_migrations(folder)
    assert [migration.version for migration in plan] == list(range(1, len(plan) + 1))
    assert all(migration.phase in ("pre", "post") for migration in plan)
    assert not folder.exists()
    store = await open_sqlite_store(folder, clock)
    assert pending_migrations(folder) == []
    await store.aclose()
    names = query(folder, "SELECT version, name, applied_ms FROM migrations")
    assert names == [(m.version, f"{m.phase}_{m.name}", clock.now_ms()) for m in plan]


async def test_a_file_that_is_no_database_is_refused_and_kept(folder: Path, clock: VirtualClock) -> None:
    folder.mkdir()
    file = folder / "tickwheel.db"
    file.write_bytes(b"something else entirely\n" * 300)
    with pytest.raises(StoreUnavailable, match="not a Tickwheel database"):
        await open_sqlite_store(folder, clock)
    assert file.read_bytes().startswith(b"something else")


async def test_every_commit_is_synced_to_a_write_ahead_log(store: SqliteStore) -> None:
    def settings(session: object) -> list[object]:
        return [
            session.value(f"PRAGMA {name}")  # type: ignore[attr-defined]  # a session
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]

    mode, synchronous, _ = await store._writer.submit(lambda session: settings(session))
    assert (mode, synchronous) == ("wal", 2)


async def test_epochs_rise_with_every_acquisition_also_after_a_restart(folder: Path, clock: VirtualClock) -> None:
    seen = []
    for worker in ("a", "b"):
        store = await open_sqlite_store(folder, clock)
        seen += [(await store.acquire(worker)).tolist(), (await store.acquire(worker)).tolist()]
        await store.aclose()
    assert seen == [[n] * 256 for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", ["tickwheel.db", "tickwheel.db-wal", "tickwheel.lock"])
async def test_nothing_is_acknowledged_once_a_file_is_gone(store: SqliteStore, folder: Path, name: str) -> None:
    await store.insert_jobs([one_off(1)])
    away = (folder / name).rename(folder / "away")
    with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
        await store.insert_jobs([one_off(2)])
    with pytest.raises(StoreUnavailable):
        await store.check()
    away.rename(folder / name)
    await store.insert_jobs([one_off(3)])
    assert query(folder, "SELECT name FROM jobs ORDER BY name") == [("job-1",), ("job-3",)]


async def test_only_the_owner_may_read_what_is_stored(store: SqliteStore, folder: Path) -> None:
    await store.insert_jobs([one_off(1)])
    readable = [file.name for file in folder.iterdir() if file.stat().st_mode & 0o077]
    assert not readable


async def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_sqlite_store(tmp_path / "above" / "data", VirtualClock())
    finally:
        os.umask(before)
    await store.insert_jobs([one_off(1)])
    assert find_open_paths(tmp_path / "above" / "data") == []
    assert (tmp_path / "above" / "data").stat().st_mode & 0o777 == 0o700
    await store.aclose()


async def test_a_folder_that_was_there_is_left_as_it_is_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o750)
    await (await open_sqlite_store(folder, VirtualClock())).aclose()
    assert find_open_paths(folder) == [f"{folder} (0750)"]
    (folder / "tickwheel.db").chmod(0o604)
    assert find_open_paths(folder) == [f"{folder} (0750)", f"{folder / 'tickwheel.db'} (0604)"]


def test_a_folder_that_is_not_there_is_open_to_nobody(tmp_path: Path) -> None:
    assert find_open_paths(tmp_path / "nix") == []
