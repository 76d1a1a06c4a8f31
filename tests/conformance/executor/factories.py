"""How each executor is built for the suite, and what it is sent out on.

An adapter joins by one entry in `SUBJECTS`: it says how each `Errand` is written as a target of its kind.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.endings import Fail, Retry
from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Executor, Report

from ...adapters.webhook.harness import wait_until
from ...adapters.webhook.sink import Sink, running_sink
from . import process_errands

LIMIT_COUNT = 4
"""How many attempts at a time an executor that has a limit makes in this suite."""


class Errand(Enum):
    """What an attempt meets."""

    SUCCEED = "succeed"
    FAIL_FOR_NOW = "fail-for-now"
    FAIL_FOR_GOOD = "fail-for-good"
    WAIT = "wait"  # goes on until `Subject.let_go`, then succeeds
    IMPOSSIBLE = "impossible"  # cannot even begin


class Subject(Protocol):
    """An executor under test and the world it acts on."""

    executor: Executor
    cancelled_as: OutcomeClass  # what a begun attempt becomes when it is cancelled

    def target(self, errand: Errand) -> Target: ...

    def begun_count(self) -> int:
        """How many attempts have reached their handler or endpoint so far."""
        ...

    def let_go(self) -> None:
        """Let all that wait succeed."""
        ...


Open = Callable[[Report, Clock], AbstractAsyncContextManager[Subject]]


class HandlerSubject:
    """What async and plain functions have in common: their names are the errands."""

    def __init__(self, report: Report, clock: Clock, cancelled_as: OutcomeClass) -> None:
        self.cancelled_as = cancelled_as
        self.handlers = Handlers()
        self.executor: Executor = HandlerExecutor(
            handlers=self.handlers,
            report=report,
            clock=clock,
            thread_limit=LIMIT_COUNT,
            process_limit=LIMIT_COUNT,
        )
        self.begun: list[int] = []  # one entry per call: appending is safe on any thread
        self.left: list[int] = []

    def target(self, errand: Errand) -> Target:
        return Target(type=TargetType.HANDLER, name=errand.value, timeout_ms=0)

    def begun_count(self) -> int:
        return len(self.begun)


class AsyncSubject(HandlerSubject):
    """Coroutines: interrupted where they await."""

    def __init__(self, report: Report, clock: Clock) -> None:
        super().__init__(report, clock, OutcomeClass.CANCELLED)
        self._gate = asyncio.Event()
        for errand in (Errand.SUCCEED, Errand.FAIL_FOR_NOW, Errand.FAIL_FOR_GOOD, Errand.WAIT):
            self.handlers.handler(errand.value)(self._handler(errand))

    def let_go(self) -> None:
        self._gate.set()

    def _handler(self, errand: Errand) -> Callable[[], Any]:
        async def handler() -> None:
            self.begun.append(1)
            if errand is Errand.WAIT:
                await self._gate.wait()
            _fail(errand)

        return handler


class PlainSubject(HandlerSubject):
    """Functions on threads: a cancelled one looks at its context and returns, which is a success."""

    def __init__(self, report: Report, clock: Clock) -> None:
        super().__init__(report, clock, OutcomeClass.SUCCESS)
        self._gate = threading.Event()
        for errand in (Errand.SUCCEED, Errand.FAIL_FOR_NOW, Errand.FAIL_FOR_GOOD, Errand.WAIT):
            self.handlers.handler(errand.value)(self._handler(errand))

    def let_go(self) -> None:
        self._gate.set()

    def _handler(self, errand: Errand) -> Callable[[Any, HandlerContext], None]:
        def handler(payload: Any, ctx: HandlerContext) -> None:
            self.begun.append(1)
            try:
                while errand is Errand.WAIT and not ctx.cancelled and not self._gate.wait(0.005):
                    pass
                _fail(errand)
            finally:
                self.left.append(1)

        return handler


class ProcessSubject(HandlerSubject):
    """Functions in processes apart, which are killed; `folder` is where they and the test meet."""

    def __init__(self, report: Report, clock: Clock, folder: Path) -> None:
        super().__init__(report, clock, OutcomeClass.CANCELLED)
        self._folder = folder
        for errand, function in (
            (Errand.SUCCEED, process_errands.succeed),
            (Errand.FAIL_FOR_NOW, process_errands.fail_for_now),
            (Errand.FAIL_FOR_GOOD, process_errands.fail_for_good),
            (Errand.WAIT, process_errands.wait),
        ):
            self.handlers.handler(errand.value, run_in="process")(function)

    def begun_count(self) -> int:
        return len(list(self._folder.glob("begun-*")))

    def let_go(self) -> None:
        (self._folder / process_errands.GATE).touch()


def _fail(errand: Errand) -> None:
    if errand is Errand.FAIL_FOR_NOW:
        raise Retry("not now")
    if errand is Errand.FAIL_FOR_GOOD:
        raise Fail("never")


class WebhookSubject:
    """Requests to a receiver on loopback."""

    cancelled_as = OutcomeClass.CANCELLED

    def __init__(self, report: Report, clock: Clock, sink: Sink) -> None:
        self._sink = sink
        settings = WebhookSettings(addresses=AddressPolicy(allow_loopback=True), host_limit_count=LIMIT_COUNT)
        self.executor: Executor = WebhookExecutor(report, clock, settings)
        self._endpoints = {
            Errand.SUCCEED: sink.url("/status/204"),
            Errand.FAIL_FOR_NOW: sink.url("/status/503"),
            Errand.FAIL_FOR_GOOD: sink.url("/status/404"),
            Errand.WAIT: sink.url("/gate"),
            Errand.IMPOSSIBLE: "gopher://127.0.0.1/",
        }

    def target(self, errand: Errand) -> Target:
        return Target(
            type=TargetType.HTTP_WEBHOOK,
            endpoint=self._endpoints[errand],
            method="POST",
            timeout_ms=60_000,
            headers=(),
        )

    def begun_count(self) -> int:
        return len(self._sink.received)

    def let_go(self) -> None:
        self._sink.gate.set()


@asynccontextmanager
async def open_async(report: Report, clock: Clock) -> AsyncIterator[Subject]:
    yield AsyncSubject(report, clock)


@asynccontextmanager
async def open_plain(report: Report, clock: Clock) -> AsyncIterator[Subject]:
    subject = PlainSubject(report, clock)
    yield subject
    subject.let_go()
    # A thread that outlives its test would wake a loop that is gone.
    await wait_until(lambda: len(subject.left) == len(subject.begun), "the threads to end")


@asynccontextmanager
async def open_process(report: Report, clock: Clock) -> AsyncIterator[Subject]:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(process_errands.FOLDER_VARIABLE, folder)
        yield ProcessSubject(report, clock, Path(folder))


@asynccontextmanager
async def open_webhook(report: Report, clock: Clock) -> AsyncIterator[Subject]:
    async with running_sink() as sink:
        yield WebhookSubject(report, clock, sink)


SUBJECTS: dict[str, Open] = {
    "async": open_async,
    "plain": open_plain,
    "process": open_process,
    "webhook": open_webhook,
}
LIMITED = ("plain", "process", "webhook")
"""Those that make later attempts wait in line; coroutines all begin at once."""
