"""Handlers of a benchmark's server: they do nothing, or note when they were called.

`tickwheel serve --app tickwheel.interfaces.bench.recording:handlers` writes one pair of 64-bit integers per call
(scheduled ms, called ms) to the end of the file that BENCH_LOG names, at the end of the process.
"""

import atexit
import os
from array import array
from pathlib import Path

from tickwheel import HandlerContext, Handlers
from tickwheel.wiring import system_clock

handlers = Handlers()
_clock = system_clock()
_calls = array("q")


@handlers.handler("noop")
async def noop(payload: object, ctx: HandlerContext) -> None:
    """Do nothing."""


@handlers.handler("record")
async def record(payload: object, ctx: HandlerContext) -> None:
    """Note the call."""
    _calls.append(ctx.scheduled_ms)
    _calls.append(_clock.now_ms())


def _write() -> None:
    path = os.environ.get("BENCH_LOG")
    if path:
        with Path(path).open("ab", buffering=0) as log:  # one write: several processes may end at once
            log.write(_calls.tobytes())


atexit.register(_write)
