"""The queue in a table of PostgreSQL, for clusters without Redis: a row per pack of up to 64 hints.

Nothing of it is written to the log, so a crash of the server empties it; owners publish again what nobody began.
Takers skip what others are taking at the same moment. A take moves the instant from which the row is visible into
the future and counts the delivery, which makes the receipts of before void.

Whoever waits is served by one poll per process for all topics that are waited for, each 5 to 50 ms, and by none
while nobody waits. (A notification would take a lock that all commits of the database queue for.)

The address may lead through PgBouncer in transaction mode. That is noticed by the process id that the pooler makes
up; then nothing is set on the session and no statement is prepared, which costs planning each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from tickwheel.adapters.postgresql.floors import Floors
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session, SessionKind
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.adapters.postgresql.waiting import Waiting
from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.job import Lane
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import HINT, PACK_COUNT, Delivery, Receipt, Topic

T = TypeVar("T")
CALL_SECONDS: Final = 1.0
LINES: Final = 2
"""So that whoever waits doesn't wait behind a publication."""
MOST_PACKS: Final = 64
"""Packs of one topic that one take looks at."""
PACKS_WEIGHED: Final = 1_000
"""Packs of one topic that depth looks at; a queue that is deeper is deep enough."""
QUEUE: Final = SessionKind("queue", prepares=False)
PREPARE_THRESHOLD: Final = 3
DIRECT_SETTINGS: Final = b"""SET statement_timeout = '900ms'; SET lock_timeout = '900ms';
SET idle_in_transaction_session_timeout = '1s'; SET jit = off;
SET enable_seqscan = off; SET enable_bitmapscan = off"""
_SQL: Final = load_statements("queue")


class _Pack(NamedTuple):
    topic: Topic
    hints: bytes


class PostgresQueue:
    """Implements `ports.queue.Queue`. `pinned_clock`: instead of the server's, for tests."""

    def __init__(
        self, url: str, clock: Clock, *, visible_again_ms: int, pinned_clock: Clock | None = None
    ) -> None:
        self._lines = Lines(url, QUEUE, LINES, call_seconds=CALL_SECONDS)
        self._again_ms, self._pinned_clock = visible_again_ms, pinned_clock
        self._clock = clock
        self._floors: dict[int, Floors] = {}  # by the number of the session
        self._waiting = Waiting(clock, self._filled)

    async def publish(self, topic: Topic, hints: Rows) -> None:
        packs = [
            _Pack(topic, hints[start : start + PACK_COUNT].tobytes()) for start in range(0, len(hints), PACK_COUNT)
        ]
        if packs:
            await self._translated(self._lines.submit_bulk(_publish, packs))

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        if limit <= 0 or not topics:
            return []
        params = {
            **self._now(),
            "again_ms": self._again_ms,
            "width": HINT.itemsize,
            "packs": min(limit, MOST_PACKS),
            "room": limit,
        }
        rows = await self._call(
            lambda session: session.write(_SQL["take"], params | self._looked_for(session, topics)), writes=True
        )
        rows.sort()  # by topic, then in the order of publication
        return [
            _delivery(topics[place - 1], list(packs))
            for place, packs in groupby(rows, key=lambda row: int(row[0]))
        ]

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        await self._waiting.wait(topics, limit_ms)

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        await self._settle("ack", receipts)

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        await self._settle("nack", receipts)

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        if not topics:
            return []
        params = {**self._now(), "width": HINT.itemsize, "packs": PACKS_WEIGHED}
        rows = await self._call(
            lambda session: session.rows(_SQL["depth"], params | self._looked_for(session, topics))
        )
        return [int(size) for (size,) in rows]

    async def aclose(self) -> None:
        await self._waiting.aclose()
        await asyncio.to_thread(self._lines.close)

    async def _filled(self, topics: Sequence[Topic]) -> Sequence[Topic]:
        """Those of which there is something to take."""
        params = self._now()
        rows = await self._call(
            lambda session: session.rows(_SQL["filled"], params | self._looked_for(session, topics))
        )
        return [Topic(Lane(lane), route) for lane, route in rows]

    async def _settle(self, statement: str, receipts: Sequence[Receipt]) -> None:
        packs = [pack for receipt in receipts for pack in _read_receipt(receipt)]
        if packs:
            params = {
                **_by_columns([topic for topic, _, _ in packs]),
                **self._now(),
                "numbers": [number for _, number, _ in packs],
                "deliveries": [delivery for _, _, delivery in packs],
            }
            await self._call(lambda session: session.write_count(_SQL[statement], params), writes=True)

    def _looked_for(self, session: Session, topics: Sequence[Topic]) -> dict[str, Any]:
        """Called in the session's thread."""
        now_ms = self._clock.monotonic_ms()
        floors = self._floors.get(session.number)
        if floors is None:
            if len(self._floors) > 2 * LINES:  # sessions that ended
                self._floors.clear()
            floors = self._floors[session.number] = Floors(_SQL["floors"], now_ms)
        return {**_by_columns(topics), "floors": floors.of(topics, session, now_ms)}

    def _now(self) -> dict[str, Any]:
        return {"now_ms": None if self._pinned_clock is None else self._pinned_clock.now_ms()}

    async def _call(self, work: Callable[[Session], T], *, writes: bool = False) -> T:
        def within(session: Session) -> T:
            _prepare(session)
            return work(session)

        return await self._translated(self._lines.submit(within, writes=writes))

    async def _translated(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except StoreUnavailable as error:
            raise ConnectionError(f"the queue on PostgreSQL: {error}") from error


def _publish(session: Session, packs: Sequence[_Pack]) -> Sequence[None]:
    """In one statement for all that publish at the same moment."""
    _prepare(session)
    params = {**_by_columns([pack.topic for pack in packs]), "packs": [pack.hints for pack in packs]}
    session.write_count(_SQL["publish"], params)
    return [None] * len(packs)


def _prepare(session: Session) -> None:
    """Once per session: find out whether it is our own, and make it faster then."""
    connection = session.connection
    if session.is_pooled is None:
        [(pid,)] = session.rows(b"SELECT pg_backend_pid()")
        session.is_pooled = pid != connection.info.backend_pid
        if not session.is_pooled:
            connection.execute(DIRECT_SETTINGS, prepare=False)
            connection.prepare_threshold = PREPARE_THRESHOLD


def _by_columns(topics: Sequence[Topic]) -> dict[str, list[Any]]:
    return {"lanes": [int(topic.lane) for topic in topics], "routes": [topic.route for topic in topics]}


def _delivery(topic: Topic, rows: list[tuple[Any, ...]]) -> Delivery:
    packs = bytearray(b"".join(bytes(hints) for _, _, _, hints in rows))
    entries = " ".join(f"{number} {delivery}" for _, number, delivery, _ in rows)
    return Delivery(topic, np.frombuffer(packs, dtype=HINT), f"{entries}|{int(topic.lane)}|{topic.route}")


def _read_receipt(receipt: Receipt) -> list[tuple[Topic, int, int]]:
    """Topic, number and delivery of each pack; written by `_delivery`."""
    entries, lane, route = receipt.split("|", 2)
    topic = Topic(Lane(int(lane)), route)
    words = [int(word) for word in entries.split(" ")]
    return [(topic, number, delivery) for number, delivery in zip(words[0::2], words[1::2], strict=True)]


def open_postgresql_queue(url: str, clock: Clock, *, visible_again_ms: int) -> PostgresQueue:
    """The queue in the schema `tickwheel` of that database, which has been migrated; nothing is sent yet."""
    return PostgresQueue(url, clock, visible_again_ms=visible_again_ms)
