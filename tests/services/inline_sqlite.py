"""The SQLite store without its threads: every verb is done when it is called, as a virtual clock needs it."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.store import SqliteStore, open_sqlite_store
from tickwheel.adapters.sqlite.writer import Writer, _BulkOperation, _Operation
from tickwheel.ports.clock import Clock


async def open_inline(folder: Path, clock: Clock) -> SqliteStore:
    """Each write is a group of its own, each answer there at once; not synced, for nobody pulls the plug."""
    store = await open_sqlite_store(folder, clock)
    store._writer._session.run("PRAGMA synchronous = OFF")
    _write_inline(store._writer)
    for reader in (store._reader, store._owner_reader, store._slice_reader):
        _read_inline(reader)
    return store


def _write_inline(writer: Writer) -> None:
    async def commit(operation: _Operation | _BulkOperation) -> Any:
        [answer] = writer._commit_group([operation])
        if answer.error is not None:
            raise answer.error
        return answer.value

    async def submit(write: Callable[..., Any], row_count: int = 1) -> Any:
        return await commit(_Operation(write, _unused(), row_count))

    async def submit_bulk(write: Callable[..., Any], items: Sequence[Any], note: Any = None) -> Any:
        return await commit(_BulkOperation(write, items, _unused(), note))

    writer.submit, writer.submit_bulk = submit, submit_bulk  # type: ignore[method-assign]  # that is the trick


def _read_inline(reader: Reader) -> None:
    async def read(look: Callable[..., Any], *, snapshot: bool = False) -> Any:
        answer = reader._answer(look, snapshot, _unused())
        if answer.error is not None:
            raise answer.error
        return answer.value

    reader.read = read  # type: ignore[method-assign]  # that is the trick


def _unused() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()
