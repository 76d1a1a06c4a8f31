"""Backup and restore as the page on backups tells it, on the folder that the settings name."""

from pathlib import Path

import apsw

from tickwheel.config import Settings
from tickwheel.wiring import open_store, store_url, system_clock


async def test_backup_taken_while_running_restores_into_an_empty_folder(tmp_path: Path) -> None:
    running = await open_store(store_url(Settings(data=str(tmp_path / "data"))), system_clock())
    epochs = await running.acquire("before")
    connection = apsw.Connection(str(tmp_path / "data" / "tickwheel.db"))
    connection.execute(f"VACUUM INTO '{tmp_path / 'backup.db'}'")
    connection.close()
    await running.aclose()

    (tmp_path / "restored").mkdir()
    (tmp_path / "backup.db").rename(tmp_path / "restored" / "tickwheel.db")
    restored = await open_store(store_url(Settings(data=str(tmp_path / "restored"))), system_clock())
    try:
        assert (await restored.acquire("after") > epochs).all()
    finally:
        await restored.aclose()
