"""The example of the docs, stopping for ever at a stage of the first delivery: `effect` (made, not committed) or
`answer` (committed, not answered). It makes a file where it does.

    python stalling_receiver.py path/of/receiver.py bookings.db effect marker
"""

import importlib.util
import os
import sqlite3
import sys
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import uvicorn

from tickwheel.receiver import Answer, Delivery

EXAMPLE, DATABASE, STAGE, MARKER = sys.argv[1:]


def stall() -> None:
    Path(MARKER).touch()
    threading.Event().wait()


def main() -> None:
    spec = importlib.util.spec_from_file_location("receiver_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    book = example.book

    def stalling_book(delivery: Delivery, connection: sqlite3.Connection) -> Answer:
        answer: Answer = book(delivery, connection)
        if STAGE == "effect":
            stall()
        return answer

    example.book = stalling_book
    app = example.make_app(DATABASE, os.environ["TICKWHEEL_WEBHOOK_SECRET"].split())

    async def stalling_app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        async def stalling_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                stall()
            await send(message)

        await app(scope, receive, stalling_send if STAGE == "answer" else send)

    uvicorn.run(stalling_app, port=0)


if __name__ == "__main__":
    main()
