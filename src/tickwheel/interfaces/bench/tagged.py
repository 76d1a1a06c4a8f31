"""Handlers that note which job they were called for, and handlers that hold their slot until they are told.

`tickwheel serve --app tickwheel.interfaces.bench.tagged:handlers` writes three 64-bit integers per call (the tag
in the payload, scheduled ms, called ms) to the end of the file that BENCH_LOG names, at the end of the process.
Held runs end once the file that BENCH_TOLD names is there, or after the `hold_ms` of their payload.
"""

import atexit
import os
from array import array
from pathlib import Path
from typing import Any, Final

from tickwheel import HandlerContext, Handlers
from tickwheel.wiring import system_clock

LOOK_MS: Final = 1_000

handlers = Handlers()
_clock = system_clock()
_calls = array("q")


def _note(payload: Any, ctx: HandlerContext) -> None:
    _calls.extend((payload["tag"], ctx.scheduled_ms, _clock.now_ms()))


def _told() -> bool:
    return Path(os.environ["BENCH_TOLD"]).exists()


@handlers.handler("tagged")
async def tagged(payload: Any, ctx: HandlerContext) -> None:
    """Note the call."""
    _note(payload, ctx)


@handlers.handler("held")
async def held(payload: Any, ctx: HandlerContext) -> None:
    """Note the call, and go on until told."""
    _note(payload, ctx)
    until_ms = _clock.monotonic_ms() + payload["hold_ms"]
    while (left_ms := until_ms - _clock.monotonic_ms()) > 0 and not _told():
        await _clock.sleep_ms(min(LOOK_MS, left_ms))


def _write() -> None:
    path = os.environ.get("BENCH_LOG")
    if path:
        with Path(path).open("ab", buffering=0) as log:
            log.write(_calls.tobytes())


atexit.register(_write)
