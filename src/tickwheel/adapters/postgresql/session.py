"""One connection to the database, used by one thread at a time.

Three kinds of session, by what they need (see `connect`): writers must reach a primary and set their timeouts on
the session, so no pooler may swap sessions under them; readers that go through a pooler in transaction mode set
nothing and prepare nothing, and pay for it: planning a read over all leaves takes longer than running it.

A statement that writes outside a transaction, and the COMMIT of one, are told apart from the rest: only where the
connection breaks during one of these is it unknown whether it was written (`committing`).
"""

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from tickwheel.adapters.postgresql.arrays import register
from tickwheel.adapters.postgresql.near_leaves import NearLeaves

CONNECT_SECONDS: Final = 3
KEEPALIVES: Final[dict[str, Any]] = {
    "keepalives": 1,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 2_500,
}
"""A cut network is noticed within about 3 s, whether something was sent or not."""

Params = Sequence[Any] | dict[str, Any]
_numbers = count(1)


class SessionKind(NamedTuple):
    """What a session is for."""

    name: str
    settings: tuple[bytes, ...] = ()
    prepares: bool = True


WRITER_SETTINGS: Final = (
    b"SET statement_timeout = '4s'",
    b"SET lock_timeout = '4s'",
    b"SET idle_in_transaction_session_timeout = '4s'",
    # The bounds of a batch are what prunes the partitions, so a plan for all batches costs far more by the
    # planner's reckoning, and is not kept; statements that name a leaf get one (`near_leaves`).
    b"SET plan_cache_mode = auto",
    b"SET max_parallel_workers_per_gather = 0",
    b"SET jit = off",
    b"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
CLAIMS: Final = SessionKind(
    "claims",
    (
        *WRITER_SETTINGS,
        b"SET statement_timeout = '1s'",
        b"SET lock_timeout = '900ms'",
        b"SET idle_in_transaction_session_timeout = '1s'",  # a takeover waits for an open claim no longer
        b"SET enable_seqscan = off",
    ),
)
BY_INDEX: Final = (
    b"SET enable_seqscan = off",
    b"SET enable_bitmapscan = off",
    b"SET enable_hashjoin = off",
    b"SET enable_mergejoin = off",
)
"""For statements that look up each row of their batch by its key, whatever the statistics say of young tables."""
COMPLETIONS: Final = SessionKind("completions", (*WRITER_SETTINGS, *BY_INDEX))
FEED: Final = SessionKind("feed", (*WRITER_SETTINGS, b"SET enable_seqscan = off"))
LOADS: Final = SessionKind("loads", (*WRITER_SETTINGS, *BY_INDEX))
OWNERSHIP: Final = SessionKind("ownership", WRITER_SETTINGS)
SESSIONS: Final = SessionKind("sessions", WRITER_SETTINGS)
"""Of workers: a thousand that come at once must not keep the node from saying that it lives."""
WRITER: Final = SessionKind("writer", WRITER_SETTINGS)
READER: Final = SessionKind("reader", (b"SET jit = off",))
POOLED_READER: Final = SessionKind("reader", (), prepares=False)
"""Behind a pooler in transaction mode: a SET would stay behind in a session that is somebody else's next."""


class Session:
    """A live connection. `number` is never used twice in a process."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.number = next(_numbers)
        self.committing = False
        self.is_pooled: bool | None = None  # whether a pooler stands between; None while nobody looked
        self.near_leaves = NearLeaves(connection)
        self._cursor = connection.cursor(binary=True)

    def rows(self, statement: bytes, params: Params | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement that only reads, or is part of a transaction."""
        return self._cursor.execute(statement, params).fetchall()

    def run(self, statement: bytes, params: Params | None = None) -> int:
        """The number of rows of a statement in a transaction that gives none."""
        return self._cursor.execute(statement, params).rowcount

    def write(self, statement: bytes, params: Params | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement that is a transaction of its own."""
        self.committing = True
        rows = self._cursor.execute(statement, params).fetchall()
        self.committing = False
        return rows

    def write_count(self, statement: bytes, params: Params | None = None) -> int:
        """The number of rows of a statement that is a transaction of its own and gives none."""
        self.committing = True
        count = self._cursor.execute(statement, params).rowcount
        self.committing = False
        return count

    def rows_of(self, query: sql.Composed) -> list[tuple[Any, ...]]:
        """The rows of a query that has its values in its text, so that nothing of it is kept."""
        return self._cursor.execute(query, prepare=False).fetchall()

    def copy_in(self, statement: bytes, data: bytes) -> None:
        """Send rows in COPY's binary form, in a transaction."""
        with self._cursor.copy(statement) as copy:
            copy.write(data)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN to COMMIT; ROLLBACK when the block raises."""
        with self._cursor as cursor:
            cursor.execute("BEGIN")
        self._cursor = self.connection.cursor(binary=True)
        try:
            yield
        except BaseException:
            if not self.connection.broken:
                self._cursor.execute("ROLLBACK")
            raise
        self.committing = True
        self._cursor.execute("COMMIT")
        self.committing = False

    @property
    def is_broken(self) -> bool:
        """Whether the connection is known to be unusable, or has something to say while nothing was asked."""
        if self.connection.closed or self.connection.broken:
            return True
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        if not poll.poll(0):
            return False
        try:  # a notice, or the end
            self.connection.pgconn.consume_input()
        except psycopg.Error:
            return True
        return bool(poll.poll(0)) or self.connection.broken

    def cut(self) -> None:
        """Break the connection from another thread: whoever waits on it gets an error at once."""
        try:
            with socket.fromfd(self.connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
                copy.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):  # it has ended already
            return

    def close(self) -> None:
        """Close it; again: nothing."""
        self.connection.close()


def connect(url: str, kind: SessionKind) -> Session:
    """Open a session on a server that takes writes; raises `psycopg.Error`."""
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name=f"tickwheel {kind.name}",
        target_session_attrs="read-write",
        prepare_threshold=3 if kind.prepares else None,
        **KEEPALIVES,
    )
    try:
        register(connection)
        if kind.settings:
            connection.execute(b"; ".join(kind.settings), prepare=False)
    except BaseException:
        connection.close()
        raise
    return Session(connection)
