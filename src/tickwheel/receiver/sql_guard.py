"""Effects that happen once, in a database: the effect and its record are one transaction.

    with guard.once(connection, delivery) as first:
        if first:
            connection.execute("UPDATE accounts SET ...")

Where no transaction is open, `once` opens one and commits it. Within an open one, the commit is yours: answer 2xx
only after it. The effect runs under a savepoint, so that of one that fails the token is kept: an older attempt
that is still on its way finds it and changes nothing.

Two deliveries of a run take turns: the second waits for the first one's transaction. How long, the database says
(`lock_timeout` of PostgreSQL, `timeout` of `sqlite3.connect`); after that it is a `DeliveryInProgress`. On SQLite
all effects of a file take turns, as all its writers do.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Final

from tickwheel.receiver.connections import Row, awaiting, blocking, lost_races
from tickwheel.receiver.delivery import Delivery
from tickwheel.receiver.refusals import DeliveryInProgress, StaleDelivery
from tickwheel.receiver.turns import Answer, Turn

SQLITE_SCHEMA: Final = """\
CREATE TABLE IF NOT EXISTS tickwheel_deliveries (
    run_id TEXT NOT NULL PRIMARY KEY,
    token  INTEGER NOT NULL,  -- the highest that was let through
    sent_s INTEGER NOT NULL,  -- when that attempt was sent, in seconds since 1970
    status INTEGER,           -- of the answer, NULL while no effect is recorded
    body   BLOB
);
CREATE INDEX IF NOT EXISTS tickwheel_deliveries_sent ON tickwheel_deliveries (sent_s);
"""
POSTGRESQL_SCHEMA: Final = SQLITE_SCHEMA.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA")

_TAKE: Final = """\
INSERT INTO tickwheel_deliveries (run_id, token, sent_s) VALUES (?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET token = excluded.token, sent_s = excluded.sent_s
 WHERE tickwheel_deliveries.status IS NULL AND tickwheel_deliveries.token <= excluded.token
RETURNING token"""
_READ: Final = "SELECT token, status, body FROM tickwheel_deliveries WHERE run_id = ?"
_RECORD: Final = "UPDATE tickwheel_deliveries SET status = ?, body = ? WHERE run_id = ?"
_FORGET: Final = "DELETE FROM tickwheel_deliveries WHERE sent_s < ?"


class SqlGuard:
    """For connections of sqlite3 and psycopg 3, and connections and sessions of SQLAlchemy 2."""

    @contextmanager
    def once(self, connection: Any, delivery: Delivery) -> Iterator[Turn]:
        """As `Guard.once`. Errors of the driver are passed on as they are."""
        database, failure = blocking(connection), None
        with database.transaction():
            with lost_races():
                taken = database.ask(_TAKE, *_key(delivery))
                read = None if taken else database.ask(_READ, delivery.run_id)
                turn = Turn(connection, None if taken else _recorded(delivery, read))
            try:
                with database.transaction():
                    yield turn
            except Exception as error:
                failure = error
            else:
                if turn:
                    database.ask(_RECORD, *turn.kept(), delivery.run_id)
        if failure is not None:
            raise failure

    def forget_before(self, connection: Any, moment: datetime) -> None:
        """Delete what is known of runs whose last attempt was sent before; a transaction as with `once`."""
        database = blocking(connection)
        with database.transaction():
            database.ask(_FORGET, int(moment.timestamp()))


class AsyncSqlGuard:
    """The same for async connections of psycopg 3 and SQLAlchemy 2, and for asyncpg."""

    @asynccontextmanager
    async def once(self, connection: Any, delivery: Delivery) -> AsyncIterator[Turn]:
        """As `Guard.once`. Errors of the driver are passed on as they are."""
        database, failure = awaiting(connection), None
        async with database.transaction():
            with lost_races():
                taken = await database.ask(_TAKE, *_key(delivery))
                read = None if taken else await database.ask(_READ, delivery.run_id)
                turn = Turn(connection, None if taken else _recorded(delivery, read))
            try:
                async with database.transaction():
                    yield turn
            except Exception as error:
                failure = error
            else:
                if turn:
                    await database.ask(_RECORD, *turn.kept(), delivery.run_id)
        if failure is not None:
            raise failure

    async def forget_before(self, connection: Any, moment: datetime) -> None:
        """As `SqlGuard.forget_before`."""
        database = awaiting(connection)
        async with database.transaction():
            await database.ask(_FORGET, int(moment.timestamp()))


def _key(delivery: Delivery) -> tuple[str, int, int]:
    return delivery.run_id, delivery.fencing_token, int(delivery.sent_at.timestamp())


def _recorded(delivery: Delivery, row: Row | None) -> Answer:
    """The answer in a row that was not to be taken. Raises what the row means if there is none."""
    if row is None:  # forgotten between the two statements
        raise DeliveryInProgress
    token, status, body = row
    if status is None:
        raise StaleDelivery(delivery.fencing_token, token)
    return Answer(status, bytes(body or b""))
