"""A service that books an amount for each run of a job, once, in SQLite.

    export TICKWHEEL_WEBHOOK_SECRET="whsec_$(head -c 32 /dev/urandom | base64)"
    python receiver.py bookings.db 9000

Start as many as you like on one file. The secret is the one that Tickwheel was started with.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import uvicorn

from tickwheel.receiver import SQLITE_SCHEMA, Answer, Delivery, SqlGuard, WebhookReceiver

BOOKINGS = "CREATE TABLE IF NOT EXISTS bookings (run_id TEXT NOT NULL, amount INTEGER NOT NULL);"


def book(delivery: Delivery, connection: sqlite3.Connection) -> Answer:
    """The effect. It commits nothing itself: the guard does, together with the record that this run is done."""
    amount = amount_in(delivery.body)
    if amount is None:
        return Answer(400, b"the payload must be an object with a whole number as its amount")
    if amount < 0:
        return Answer(400, b"negative amounts can't be booked")  # nothing is recorded, and Tickwheel gives up
    connection.execute("INSERT INTO bookings (run_id, amount) VALUES (?, ?)", (delivery.run_id, amount))
    return Answer(201, b"booked")


def amount_in(body: bytes) -> int | None:
    """What is to be booked; None for a payload of another shape, which no repetition makes right."""
    try:
        payload = json.loads(body)
    except ValueError:
        return None
    amount = payload.get("amount") if isinstance(payload, dict) else None
    return amount if type(amount) is int and abs(amount) < 1 << 63 else None


def make_app(path: str, secrets: list[str]) -> WebhookReceiver:
    """The ASGI application, with its tables in the file `path`."""

    @contextmanager
    def connect() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(path, timeout=10)) as connection:
            yield connection

    with connect() as connection:
        connection.executescript("PRAGMA journal_mode = WAL;" + BOOKINGS + SQLITE_SCHEMA)
    return WebhookReceiver(book, secrets=secrets, guard=SqlGuard(), connect=connect)


if __name__ == "__main__":
    # Two secrets with a space between, while one is replaced by the other.
    given = os.environ.get("TICKWHEEL_WEBHOOK_SECRET", "").split()
    if len(sys.argv) != 3 or not given:
        sys.exit("usage: receiver.py DATABASE PORT, with TICKWHEEL_WEBHOOK_SECRET set to the secret of the server")
    app = make_app(sys.argv[1], given)
    uvicorn.run(app, port=int(sys.argv[2]))
