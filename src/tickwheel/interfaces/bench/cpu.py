"""CPU time of what is measured: this process or a server's, and PostgreSQL where it runs on this machine."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tickwheel.interfaces.bench.outcome import Figures

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PARENT: Final = 1
_OWN_TIMES: Final = slice(11, 13)  # utime, stime
_TIMES: Final = slice(11, 15)  # and the same of children that were waited for


class Cpu:
    """What a stretch of work costs, from the moment that this is made; `own_ms` tells what we have used."""

    def __init__(self, store_url: str, own_ms: Callable[[], int]) -> None:
        self._own_ms, self._database = own_ms, _Database(store_url)
        self._began_ms, self._database_began_ms = own_ms(), self._database.used_ms()

    def figures(self, count: int) -> Figures:
        """Per 1,000 of `count`, the database's part apart where it can be seen."""
        own_ms = self._own_ms() - self._began_ms
        database_ms = self._database.used_ms() - self._database_began_ms
        figures: Figures = {"cpu_s_per_1k": round((own_ms + database_ms) / count, 4)}
        if self._database.seen:
            figures["database_cpu_s_per_1k"] = round(database_ms / count, 4)
        return figures


def process_ms(pid: int) -> int:
    """What a running process has used, in ms; 0 where that can't be seen."""
    try:
        return sum(map(int, _fields(pid)[_OWN_TIMES])) * 1000 // _TICKS_PER_S
    except OSError:
        return 0


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that run; none where that can't be seen."""
    try:
        return [child for child, fields in _processes() if int(fields[_PARENT]) == pid]
    except OSError:
        return []


class _Database:
    """`used_ms` tells what the server has used; always 0 where it can't be seen (SQLite, another machine)."""

    def __init__(self, store: str) -> None:
        self._server = _server_pid(store) if store.startswith(("postgresql:", "postgres:")) else 0

    @property
    def seen(self) -> bool:
        """Whether the server is here."""
        return self._server != 0

    def used_ms(self) -> int:
        """Of the server and everything that it started."""
        if not self._server:
            return 0
        ticks = 0
        for pid, fields in _processes():
            if self._server in (pid, int(fields[_PARENT])):
                ticks += sum(map(int, fields[_TIMES]))
        return ticks * 1000 // _TICKS_PER_S


def _server_pid(store: str) -> int:
    """The process that started the backend that answers us; 0 when that is not to be seen from here."""
    import psycopg

    with psycopg.connect(store, autocommit=True) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        backend = int(row[0]) if row else 0
        try:
            fields = _fields(backend)
            name = Path(f"/proc/{backend}/comm").read_text()
        except OSError:
            return 0
    return int(fields[_PARENT]) if name.startswith("postgres") else 0


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), _fields(int(entry.name))
            except OSError:  # it has ended
                continue


def _fields(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
