"""What the servers under test run; copied into a folder of its own, from which they load it."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from tickwheel import Fail, HandlerContext, handler

FOR_EVER_S = 120  # longer than any test


@handler("work")
async def work(payload: Any, ctx: HandlerContext) -> None:
    pass


@handler("broken")
async def broken(payload: Any, ctx: HandlerContext) -> None:
    raise Fail("it is broken")


@handler("evil")
async def evil(payload: Any, ctx: HandlerContext) -> None:
    raise Fail("\x1b[2Jcleared")


@handler("nap")
async def nap(payload: Any, ctx: HandlerContext) -> None:
    await asyncio.sleep(payload)


@handler("deaf")
async def deaf(payload: Any, ctx: HandlerContext) -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(FOR_EVER_S)


@handler("blocking")
async def blocking(payload: Any, ctx: HandlerContext) -> None:
    print("blocking has begun", flush=True)
    time.sleep(FOR_EVER_S)


@handler("stuck_thread")
def stuck_thread(payload: Any, ctx: HandlerContext) -> None:
    time.sleep(FOR_EVER_S)
