"""The API on a real port, in a thread of its own, on the memory store; nothing fires."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.domain.columns import Rows
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.ports.events import Event
from tickwheel.services.authentication import Authentication
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.load import Demand
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.runs import Runs


class Ignored:
    """Takes events and keeps none."""

    def emit(self, event: Event) -> None: ...


class IdleOwner:
    """Takes hints and does nothing."""

    def arm(self, timers: Rows) -> None: ...

    def forget_work(self, job_id: bytes) -> None: ...

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None: ...


@contextmanager
def served() -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    ready = threading.Event()
    found: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = []

    async def serve() -> None:
        clock, randomness, owner = SystemClock(), SystemRandomness(), IdleOwner()
        store = MemoryStore(clock)
        desk = WorkerDesk(
            store=store,
            queue=MemoryQueue(clock, 5_000),
            clock=clock,
            randomness=randomness,
            events=Ignored(),
            arm=owner.arm,
            lease_length_ms=30_000,
        )
        deps = Deps(
            jobs=Jobs(store, owner, clock, randomness),
            runs=Runs(store, owner, clock),
            dead_letters=DeadLetters(store, owner, clock),
            store=store,
            clock=clock,
            metrics=lambda: b"up 1\n",
            authentication=Authentication(clock),
            workers=desk,
            demand=Demand(loads=list, states=list, clock=clock),
        )
        desk.start()
        server = HttpServer(build_app(deps), "127.0.0.1", 0, drain_seconds=1)
        await server.start()
        stop = asyncio.Event()
        found.append((asyncio.get_running_loop(), stop, server.url))
        ready.set()
        await stop.wait()
        desk.stop_polls()
        await server.stop()
        await desk.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    loop, stop, url = found[0]
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
