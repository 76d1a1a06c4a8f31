"""Workers that pull from the API of `PullWorld`, without sockets, so that time can be virtual and answers lost."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tickwheel.adapters.pull import HttpSource, Refused
from tickwheel.domain.job import TargetType
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.worker_loop import WorkerLoop

from ...services.world import FakeExecutor
from ..http.asgi_client import AsgiClient
from ..http.pull_world import PullWorld

T = TypeVar("T")


class Calls:
    """Implements `adapters.pull.calls.Calls` on an ASGI client; loses what it is told to lose."""

    def __init__(self, world: PullWorld) -> None:
        self._clients: list[AsgiClient] = [world.client, world.other]
        self._world = world
        self.away = False
        self.lose_answers_of = ""  # the end of a path
        self.lose_count = 1
        self.asked: list[tuple[str, Any]] = []

    def look_elsewhere(self) -> None:
        self._clients.reverse()

    async def post(self, path: str, body: Any, answer: type[T], *, wait_ms: int = 0) -> T:
        self.asked.append((path, body))
        if self.away:
            raise ConnectionError("nobody answers")
        data = msgspec.json.decode(msgspec.json.encode(body))
        reply = await self._clients[0].request("POST", path, data, hangs=path.endswith("poll"))
        if self.lose_answers_of and path.endswith(self.lose_answers_of) and self.lose_count:
            if path.endswith("poll") and b'"runs":[]' in reply.body:
                return msgspec.json.decode(reply.body, type=answer)
            self.lose_count -= 1
            raise ConnectionError("the answer was lost")
        if reply.status >= 400:
            raise Refused(reply.body.decode())
        return msgspec.json.decode(reply.body, type=answer)

    def cut(self) -> None:
        """As when the process dies: pending polls break."""
        self.away = True
        for client in self._clients:
            client.hang_up()

    async def aclose(self) -> None:
        return


class Puller:
    """One worker."""

    def __init__(self, world: PullWorld, *, slots: int = 4) -> None:
        self.calls, self.world = Calls(world), world
        self.behave: Callable[[Work], Outcome | None] = lambda work: OK
        self.executors: list[FakeExecutor] = []
        self.progress: Progress | None = None
        self.source = HttpSource(
            self.calls, handlers=["work"], webhooks=False, clock=world.clock, events=world.events
        )

        def build(report: Report, progress: Progress) -> FakeExecutor:
            self.progress = progress
            self.executors.append(FakeExecutor(report, world.clock, lambda work: self.behave(work)))
            return self.executors[-1]

        self.loop = WorkerLoop(
            source=self.source,
            clock=world.clock,
            events=world.events,
            note=WorkerNote(name="w", handlers=("work",), slots=slots),
            build={TargetType.HANDLER: build},
        )

    @property
    def executor(self) -> FakeExecutor:
        return self.executors[0]

    async def start(self) -> "Puller":
        await self.loop.start()
        await self.world.clock.advance(0)
        return self

    async def kill(self) -> None:
        """kill -9: nothing of it speaks again, and its connections break."""
        self.calls.cut()
        await self.loop.kill()
        await self.source.aclose()
        self.executor.open.clear()

    async def drain(self, grace_ms: int) -> None:
        draining = asyncio.ensure_future(self.loop.drain(grace_ms))
        await self.world.clock.advance(grace_ms + 5_000)
        await draining
