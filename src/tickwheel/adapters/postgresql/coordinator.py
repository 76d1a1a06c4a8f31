"""The default coordinator: rows in the same database as the jobs, so that a cluster needs no further server.

A node that loses the database loses both at once, which is as it should be: it can neither beat nor claim. Beats
have a connection of their own, so that they never wait behind other work.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session, SessionKind
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Beat

T = TypeVar("T")
CALL_SECONDS: Final = 1.0
"""A beat that takes longer is one that failed: silences begin anew, and the next one has a new connection."""
LAPSE_MS: Final = 2_000
BEATS: Final = SessionKind(
    "beats",
    (
        b"SET statement_timeout = '900ms'",
        b"SET lock_timeout = '900ms'",
        b"SET idle_in_transaction_session_timeout = '1s'",
        b"SET jit = off",
    ),
)
_SQL: Final = load_statements("coordinator")


class PostgresCoordinator:
    """Implements `ports.coordinator.Coordinator`. `pinned_clock`: instead of the server's clock, for tests."""

    def __init__(self, url: str, *, lapse_ms: int = LAPSE_MS, pinned_clock: Clock | None = None) -> None:
        self._lines = Lines(url, BEATS, call_seconds=CALL_SECONDS)
        self._lapse_ms, self._pinned_clock = lapse_ms, pinned_clock

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        await self._write("beat", incarnation=incarnation, counter=counter, payload=payload)

    async def members(self) -> Mapping[str, Beat]:
        rows = await self._call(lambda session: session.rows(_SQL["members"]))
        return {incarnation: Beat(counter, bytes(payload)) for incarnation, counter, payload in rows}

    async def leave(self, incarnation: str) -> None:
        await self._write("leave", incarnation=incarnation)

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        holder = await self._holder(name)
        if holder is not None:
            return holder[1] if holder[0] == incarnation else None
        rows = await self._write("acquire_lock", name=name, incarnation=incarnation)
        return int(rows[0][0]) if rows else None

    async def release_lock(self, name: str, incarnation: str) -> None:
        await self._write("release_lock", name=name, incarnation=incarnation)

    async def lock_holder(self, name: str) -> str | None:
        holder = await self._holder(name)
        return None if holder is None else holder[0]

    async def aclose(self) -> None:
        await asyncio.to_thread(self._lines.close)

    async def _holder(self, name: str) -> tuple[str, int] | None:
        params = self._params(name=name)
        rows = await self._call(lambda session: session.rows(_SQL["lock_holder"], params))
        return (rows[0][0], rows[0][1]) if rows else None

    async def _write(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        given = self._params(**params)
        return await self._call(lambda session: session.write(_SQL[statement], given))

    def _params(self, **params: Any) -> dict[str, Any]:
        now_ms = None if self._pinned_clock is None else self._pinned_clock.now_ms()
        return {**params, "now_ms": now_ms, "lapse_ms": self._lapse_ms}

    async def _call(self, work: Callable[[Session], T]) -> T:
        try:
            return await self._lines.submit(work)
        except StoreUnavailable as error:
            raise ConnectionError(f"the coordinator on PostgreSQL: {error}") from error


def open_postgresql_coordinator(url: str, *, lapse_ms: int = LAPSE_MS) -> PostgresCoordinator:
    """Beats and locks in the schema `tickwheel` of that database, which has been migrated."""
    return PostgresCoordinator(url, lapse_ms=lapse_ms)
