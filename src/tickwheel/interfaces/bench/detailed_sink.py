"""A receiver of webhooks that notes which job each request was for, and is slow where it is told to be.

`python -m tickwheel.interfaces.bench.detailed_sink FILE` prints its port and, when it is told to end, writes five
64-bit integers per request to FILE: scheduled ms, received ms, job key, shard, fencing token. The shard is read
off the id's bytes. A first attempt at `/slow` is answered after `SLOW_S`, all else at once.
"""

import asyncio
import sys
from array import array
from datetime import datetime
from pathlib import Path
from typing import Final

import httptools

from tickwheel.domain.ids import parse_job_id
from tickwheel.interfaces.bench.sink import ANSWER, PlainReceiver, run
from tickwheel.wiring import system_clock

SLOW_S: Final = 6.0
COLUMNS: Final = 5
SHARD_BYTES: Final = slice(6, 8)
_clock = system_clock()


def job_key(job_id: bytes) -> int:
    """63 random bits of the id: enough to tell jobs apart."""
    return int.from_bytes(job_id[8:], "big") >> 1


class DetailedReceiver(PlainReceiver):
    """One connection."""

    def __init__(self, calls: "array[int]") -> None:
        self._calls = calls
        self._parser = httptools.HttpRequestParser(self)
        self._scheduled_ms = self._token = self._attempt = 0
        self._job_id, self._slow = bytes(16), False

    def on_url(self, url: bytes) -> None:
        """Called by the parser."""
        self._slow = url.startswith(b"/slow")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        match name.lower():
            case b"x-scheduled-at":
                self._scheduled_ms = round(datetime.fromisoformat(value.decode()).timestamp() * 1000)
            case b"x-job-id":
                self._job_id = parse_job_id(value.decode())
            case b"x-fencing-token":
                self._token = int(value)
            case b"x-attempt":
                self._attempt = int(value)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        shard = int.from_bytes(self._job_id[SHARD_BYTES], "big")
        self._calls.extend((self._scheduled_ms, _clock.now_ms(), job_key(self._job_id), shard, self._token))
        if self._slow and self._attempt == 1:
            asyncio.get_running_loop().call_later(SLOW_S, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


if __name__ == "__main__":
    run(Path(sys.argv[1]), DetailedReceiver)
