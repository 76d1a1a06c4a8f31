"""A process that is killed at any moment loses nothing that it acknowledged."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.testing.virtual_clock import VirtualClock

from .jobs import query

WRITER = """
import asyncio, sys
from pathlib import Path
from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.adapters.system import SystemClock
sys.path.insert(0, sys.argv[2])
from jobs import one_off

async def insert(store, number):
    await store.insert_jobs([one_off(number)])
    print(number, flush=True)

async def main():
    store = await open_sqlite_store(Path(sys.argv[1]), SystemClock())
    for start in range(0, 1_000_000, 20):
        await asyncio.gather(*(insert(store, number) for number in range(start, start + 20)))

asyncio.run(main())
"""


@pytest.mark.parametrize("ack_count", [1, 57, 400])
async def test_nothing_acknowledged_is_lost_by_kill_9(folder: Path, clock: VirtualClock, ack_count: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    acked = {writer.stdout.readline() for _ in range(ack_count)}
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    acked |= {line for line in rest.splitlines(keepends=True) if line.endswith("\n")}
    store = await open_sqlite_store(folder, clock)
    timers = await store.load_timers(0, 1 << 60, 1_000_000)
    counts = await store.counts()
    await store.aclose()
    stored = {name for (name,) in query(folder, "SELECT name FROM jobs")}
    assert {f"job-{int(number)}" for number in acked} <= stored
    assert len(timers) == counts.waiting == counts.jobs == len(stored), "each job has its timer"
    assert query(folder, "PRAGMA integrity_check") == [("ok",)]
