"""Files of history: complete before the table goes, whatever stops in between (I14)."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tickwheel.adapters.postgresql import history, upkeep
from tickwheel.adapters.postgresql.history import Written, open_history, read_back
from tickwheel.domain.errors import ConfigError, StoreUnavailable
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote

from .calendar import Calendar


def folder_of(calendar: Calendar) -> Path:
    written = calendar.store._upkeep._history
    assert written is not None
    return written.folder


def files(calendar: Calendar, table: str) -> list[Path]:
    return sorted(folder_of(calendar).glob(f"{table}_*.parquet"))


def rows(calendar: Calendar, table: str) -> list[dict[str, Any]]:
    return [row for path in files(calendar, table) for row in parquet.read_table(path).to_pylist()]


async def test_the_ledger_is_written_before_it_is_dropped(historian: Calendar) -> None:
    """I14: rows exported = rows dropped."""
    started = historian.clock.now_ms()
    done = await historian.finish(name="nightly")
    failing = historian.arena.one_off()
    await historian.arena.insert(failing)
    held = await historian.owner.win(failing)
    note = AttemptNote("refused", "body")
    follow_up = (await historian.owner.complete(held, RunState.SCHEDULED, note)).follow_up
    await historian.owner.complete(await historian.owner.win(failing, follow_up), RunState.SUCCEEDED)
    await historian.pass_to(5)
    assert not historian.has_leaf("runs", 0)
    by_job = {row["job_id"]: row for row in rows(historian, "runs")}
    assert len(by_job) == 2
    row = by_job[job_id_text(done.job.job_id)]
    assert row["run_id"] == run_id_text(done.job.job_id, started)
    assert (row["tenant_id"], row["job_name"], row["state"], row["lane"]) == (
        *("default", "nightly", "SUCCEEDED", "DEFAULT"),
    )
    assert row["scheduled_at"] == datetime.fromtimestamp(started / 1000, UTC)
    assert (row["attempts"], row["worker"], row["http_status"], row["error"]) == (1, "worker-1", 200, None)
    [attempt] = rows(historian, "attempts")
    assert (attempt["outcome"], attempt["error"], attempt["excerpt"]) == ("RETRYABLE", "refused", "body")
    assert attempt["job_id"] == job_id_text(failing.job.job_id)
    noted = historian.rows(
        "SELECT row_count, checksum FROM tickwheel.history_files WHERE leaf LIKE 'runs%%' AND row_count > 0"
    )
    [path] = files(historian, "runs")
    assert noted == [tuple(read_back(path))]


async def test_what_is_kept_is_not_in_the_file_but_in_a_later_one(historian: Calendar) -> None:
    """I14: a dead letter stays; once it is dropped, it goes into a file of its own."""
    await historian.finish()
    dead = await historian.finish(RunState.FAILED)
    instant = historian.clock.now_ms()
    await historian.pass_to(5)
    [first] = files(historian, "runs")
    assert [row["state"] for row in rows(historian, "runs")] == ["SUCCEEDED"]
    await historian.store.drop_dead("default", dead.job.job_id, instant)
    await historian.pass_to(7)
    assert [row["state"] for row in rows(historian, "runs")] == ["SUCCEEDED", "FAILED"]
    assert [path.name.removesuffix("_1.parquet") for path in (first,)] == [
        path.name.removesuffix("_2.parquet") for path in files(historian, "runs")[1:]
    ]


class Stopped(OSError):
    """The process ends here."""


def fail(*args: Any, **kwargs: Any) -> Any:
    raise Stopped


def half(path: Path, columns: Any, batches: Any) -> Written:
    path.write_bytes(b"PAR1 half")
    raise Stopped


def wrong(path: Path) -> Written:
    return Written(0, "")


STEPS: list[tuple[Any, str, Callable[..., Any]]] = [
    (upkeep, "rescue", fail),  # after detaching
    (history, "_write", half),
    (history, "_sync", fail),
    (Path, "replace", fail),
    (history, "read_back", fail),
    (history, "read_back", wrong),
    (upkeep, "_export", fail),  # before anything was written, and, as if noted nowhere, after all of it
]


@pytest.mark.parametrize("step", range(len(STEPS)))
async def test_table_or_file_is_complete_whatever_stops(
    historian: Calendar, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """I14: a crash between any two steps leaves either of them, never neither; the next sweep goes on."""
    jobs = [await historian.finish() for _ in range(3)]
    ids = {job_id_text(new.job.job_id) for new in jobs}
    await historian.pass_to(1.2)  # the empty leaf of the day before
    place, name, stop = STEPS[step]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, stop)
        with pytest.raises(StoreUnavailable, match="history"):
            await historian.pass_to(5)
        [(piece,)] = historian.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'gone_runs%%'"
        )
        assert historian.rows(f"SELECT count(*) FROM tickwheel.{piece}") == [(3,)]
    await historian.reopen()
    await historian.pass_to(5.1)
    assert {row["job_id"] for row in rows(historian, "runs")} == ids
    assert len(rows(historian, "runs")) == 3
    assert not list(folder_of(historian).glob(".*"))
    assert historian.rows("SELECT count(*) FROM pg_class WHERE relname LIKE 'gone%%' AND relkind = 'r'") == [(0,)]


async def test_a_large_leaf_is_written_in_pieces_that_hold_no_snapshot(
    historian: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BATCH_ROWS", 7)
    jobs = [await historian.finish(shard=n % 5) for n in range(30)]
    await historian.pass_to(5)
    [path] = files(historian, "runs")
    with parquet.ParquetFile(path) as file:
        assert file.num_row_groups == 5
    assert {row["job_id"] for row in rows(historian, "runs")} == {job_id_text(new.job.job_id) for new in jobs}


def test_a_folder_that_cannot_be_made_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="history"):
        open_history(tmp_path / "file" / "history")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"tickwheel\[history\]"):
        open_history(tmp_path / "history")
