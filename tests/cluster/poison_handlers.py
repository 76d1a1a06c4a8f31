"""Handlers of a node under test; a module, because processes import them by name."""

import os
import signal
import time
from typing import Any

from tickwheel import HandlerContext, Handlers

handlers = Handlers()


@handlers.handler("poison", run_in="process")
def poison() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(5)


@handlers.handler("apart", run_in="process")
def apart(payload: dict[str, int], ctx: HandlerContext) -> int:
    ctx.heartbeat(0.5, "half")
    time.sleep(1.5)
    return sum(payload.values())


@handlers.handler("here")
async def here(payload: Any) -> Any:
    return {"nul": "\0", "payload": payload}
