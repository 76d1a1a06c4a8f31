"""What handlers learn of their run, and say of themselves."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.endings import Cancel, Fail, Retry, Snooze
from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import OK, RESULT_LIMIT_BYTES, Outcome, OutcomeClass, ProgressNote
from tickwheel.ports.executor import Work

PATIENCE_S = 10


class Desk:
    """Runs one handler at a time, and hears what it says."""

    def __init__(self) -> None:
        self.handlers, self.said = Handlers(), list[tuple[int, ProgressNote]]()
        self.outcomes: dict[int, Outcome] = {}
        self._news = asyncio.Event()
        self.executor = HandlerExecutor(
            handlers=self.handlers,
            report=self._report,
            clock=SystemClock(),
            thread_limit=2,
            progress=lambda slot, note: self.said.append((slot, note)),
        )

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        self.outcomes.update(zip(slots, outcomes, strict=True))
        self._news.set()

    async def run(self, function: Callable[..., Any], payload: bytes = b"", timeout_ms: int = 0) -> Outcome:
        self.handlers.handler("it")(function)
        target = Target(type=TargetType.HANDLER, name="it", timeout_ms=timeout_ms)
        self.executor.start([Work(5, b"j" * 16, 1_790_000_000_123, 77, 2, 4, 1, "acme", target, payload, None)])
        async with asyncio.timeout(PATIENCE_S):
            while 5 not in self.outcomes:
                self._news.clear()
                await self._news.wait()
        await asyncio.sleep(0)
        return self.outcomes.pop(5)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    await desk.executor.aclose(0)


async def test_payload_that_does_not_fit_fails_for_good(desk: Desk) -> None:
    class Order(msgspec.Struct):
        quantity: int

    def plain(payload: Order) -> None: ...

    async def coroutine(payload: Order) -> None: ...

    for function in (plain, coroutine):
        desk.handlers = desk.executor._handlers = Handlers()
        outcome = await desk.run(function, b'{"quantity":"two"}')
        assert outcome.outcome_class is OutcomeClass.PERMANENT
        assert outcome.error == "the payload doesn't fit Order: Expected `int`, got `str` - at `$.quantity`"


async def test_deadline_is_the_targets_timeout_from_the_start_on(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(payload: Any, ctx: HandlerContext) -> None:
        seen.extend((ctx.deadline, ctx.deadline_ms, ctx.lane))

    await desk.run(handler, timeout_ms=30_000)
    left = seen[0] - datetime.now(UTC)
    assert timedelta(seconds=20) < left <= timedelta(seconds=30.1)
    assert seen[1] == int(seen[0].timestamp() * 1000)
    assert seen[2] == "HIGH"
    await desk.run(handler)
    assert seen[3:5] == [None, None]


async def test_plain_function_sees_that_its_time_is_over(desk: Desk) -> None:
    def handler(payload: Any, ctx: HandlerContext) -> str:
        for _ in range(1_000):
            if ctx.cancelled:
                return "saw it"
            threading.Event().wait(0.01)
        return "blind"

    assert (await desk.run(handler, timeout_ms=50)).result == b'"saw it"'


async def test_heartbeats_of_async_handlers_are_heard(desk: Desk) -> None:
    async def handler(payload: Any, ctx: HandlerContext) -> None:
        await ctx.heartbeat(progress=0.25, note="begun")
        await asyncio.sleep(0.01)
        await ctx.heartbeat(0.5)
        await asyncio.sleep(0.01)
        ctx.heartbeat(note="nearly")
        await asyncio.sleep(0.01)

    assert await desk.run(handler) is OK
    assert desk.said == [
        (5, ProgressNote(0.25, "begun")),
        (5, ProgressNote(0.5, "begun")),
        (5, ProgressNote(0.5, "nearly")),
    ]


async def test_heartbeats_of_plain_functions_are_heard_and_the_latest_counts(desk: Desk) -> None:
    def handler(payload: Any, ctx: HandlerContext) -> None:
        for number in range(10_000):
            ctx.heartbeat(progress=number / 10_000)
        threading.Event().wait(0.05)

    assert await desk.run(handler) is OK
    assert 1 <= len(desk.said) < 10_000
    assert desk.said[-1] == (5, ProgressNote(0.9999))


async def test_heartbeat_never_fails_a_handler(desk: Desk) -> None:
    class Untellable:
        def __str__(self) -> str:
            raise ValueError

    told: list[ProgressNote | None] = []

    async def handler(payload: Any, ctx: HandlerContext) -> None:
        for progress, note in (
            (7, "x" * 300),
            (-1, "a\ud800"),
            (float("nan"), None),
            ("half", Untellable()),
            (10**400, 3),
        ):
            await ctx.heartbeat(progress, note)  # type: ignore[arg-type]  # what users may give
            told.append(ctx._beat)

    assert await desk.run(handler) is OK
    assert told[0] == ProgressNote(1.0, "x" * 256)
    assert told[1] == told[2] == told[3] == ProgressNote(0.0, "a?")
    assert told[4] is not None
    assert told[4].note == "3"


async def test_cancelled_async_handler_is_interrupted_at_its_heartbeat(desk: Desk) -> None:
    beats = 0

    async def handler(payload: Any, ctx: HandlerContext) -> None:
        nonlocal beats
        for _ in range(1_000_000):
            beats += 1
            if beats == 10:
                desk.executor.cancel([5])
            await ctx.heartbeat()

    assert (await desk.run(handler)).outcome_class is OutcomeClass.CANCELLED
    assert 10 <= beats < 20


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("error", "wanted", "retry_after_ms"),
    [
        (Cancel("not wanted any more"), OutcomeClass.CANCELLED, None),
        (Fail("for good"), OutcomeClass.PERMANENT, None),
        (Fail("for now", permanent=False), OutcomeClass.RETRYABLE, None),
        (Retry(after=2.5), OutcomeClass.RETRYABLE, 2_500),
        (Retry("busy", after=timedelta(minutes=1)), OutcomeClass.RETRYABLE, 60_000),
        (Snooze(after=timedelta(hours=1)), OutcomeClass.SNOOZE, 3_600_000),
        (Snooze(after_seconds=3), OutcomeClass.SNOOZE, 3_000),
        (Snooze(), OutcomeClass.SNOOZE, 60_000),
    ],
)
async def test_what_is_raised_says_how_it_goes_on(
    desk: Desk, is_async: bool, error: Exception, wanted: OutcomeClass, retry_after_ms: int | None
) -> None:
    async def coroutine() -> None:
        raise error

    def plain() -> None:
        raise error

    outcome = await desk.run(coroutine if is_async else plain)
    assert (outcome.outcome_class, outcome.retry_after_ms) == (wanted, retry_after_ms)
    assert str(error) in (outcome.error or "")


def test_two_lengths_are_refused() -> None:
    with pytest.raises(TypeError, match="not both"):
        Retry(after=1, after_seconds=2)


class Point(msgspec.Struct):
    x: int


class Model:
    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.pitfall(71)
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"sum": 3}, b'{"sum":3}'),
        ("\0", b'"\\u0000"'),
        (False, b"false"),
        (0, b"0"),
        ([], b"[]"),
        (Point(1), b'{"x":1}'),
        (Model(), b'{"mode":"json"}'),
        (datetime(2026, 9, 21, tzinfo=UTC), b'"2026-09-21T00:00:00Z"'),
        ("x" * (RESULT_LIMIT_BYTES - 2), b'"' + b"x" * (RESULT_LIMIT_BYTES - 2) + b'"'),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_handler_returns_is_its_result(desk: Desk, value: Any, result: bytes, waits: bool) -> None:
    async def handler() -> Any:
        if waits:
            await asyncio.sleep(0)
        return value

    outcome = await desk.run(handler)
    assert (outcome.outcome_class, outcome.result, outcome.result_dropped) == (OutcomeClass.SUCCESS, result, None)
    desk.handlers = desk.executor._handlers = Handlers()
    assert (await desk.run(lambda: value)).result == result


@pytest.mark.pitfall(71)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * RESULT_LIMIT_BYTES, "it has 65,538 bytes as JSON; at most 65,536 are kept"),
        (object(), "it can't be written as JSON (TypeError: objects of type object are not supported)"),
        ("\ud800", "it can't be written as JSON (UnicodeEncodeError"),
        (nested(200), "it nests deeper than 128 levels"),
        (nested(100_000), "it can't be written as JSON (RecursionError"),
    ],
)
async def test_result_that_can_not_be_kept_is_dropped_with_the_reason(desk: Desk, value: Any, reason: str) -> None:
    outcome = await desk.run(lambda: value)
    assert (outcome.outcome_class, outcome.result) == (OutcomeClass.SUCCESS, None)
    assert (outcome.result_dropped or "").startswith(reason)
