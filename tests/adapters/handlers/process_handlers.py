"""Handlers that run in processes of their own; a module, because those import them by name."""

import asyncio
import os
import signal
import sys
import time
from typing import Any

import msgspec

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.endings import Cancel, Fail
from tickwheel.adapters.handlers.registry import Handlers

handlers = Handlers()


class Numbers(msgspec.Struct):
    a: int
    b: int


@handlers.handler("add", run_in="process")
def add(payload: Numbers, ctx: HandlerContext) -> dict[str, Any]:
    return {"sum": payload.a + payload.b, "pid": os.getpid(), "run": ctx.run_id, "deadline": ctx.deadline_ms}


@handlers.handler("add_async", run_in="process")
async def add_async(payload: Numbers) -> int:
    await asyncio.sleep(0.01)
    return payload.a + payload.b


@handlers.handler("talk", run_in="process")
def talk(payload: Any, ctx: HandlerContext) -> None:
    ctx.heartbeat(0.5, "half")
    time.sleep(0.15)
    ctx.heartbeat(1.0)


@handlers.handler("sleep", run_in="process")
def sleep(payload: Any) -> None:
    print("something that goes to nobody's protocol")
    time.sleep(60)


@handlers.handler("die", run_in="process")
def die(payload: Any) -> None:
    os.kill(os.getpid(), getattr(signal, payload))
    time.sleep(5)


@handlers.handler("leave", run_in="process")
def leave() -> None:
    os._exit(3)


@handlers.handler("scribble", run_in="process")
def scribble(payload: list[int]) -> None:
    os.write(int(sys.argv[1]), bytes(payload))  # the line to its parent
    time.sleep(60)


@handlers.handler("hoard", run_in="process")
def hoard() -> None:
    raise MemoryError


@handlers.handler("fail", run_in="process")
def fail(payload: Any) -> None:
    if payload == "exit":
        sys.exit(1)
    raise Cancel("no") if payload == "cancel" else Fail("never")


@handlers.handler("split", run_in="process")
def split(payload: bool) -> int:
    """Both processes come back from it; or with True, this one ends and its copy goes on."""
    copy = os.fork()
    if payload:
        if copy == 0:
            time.sleep(60)
        os._exit(4)
    return os.getpid()
