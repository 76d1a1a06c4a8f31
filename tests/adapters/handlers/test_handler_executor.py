"""Handlers as users write them: async and plain, failing, slow, deaf to cancellation."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.endings import Fail, Retry, Snooze
from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.ids import run_id_text
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.limits import HORIZON_MS
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.ports.executor import Work

PATIENCE_S = 10


class Desk:
    """Starts work and waits for its report."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.outcomes: dict[int, Outcome] = {}
        self.reports: list[int] = []
        self._news = asyncio.Event()
        self.executor = HandlerExecutor(
            handlers=self.handlers, report=self._report, clock=SystemClock(), thread_limit=4
        )

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        self.reports.append(len(slots))
        for slot, outcome in zip(slots, outcomes, strict=True):
            assert slot not in self.outcomes, "reported twice"
            self.outcomes[slot] = outcome
        self._news.set()

    async def outcome(self, slot: int = 0) -> Outcome:
        async with asyncio.timeout(PATIENCE_S):
            while slot not in self.outcomes:
                self._news.clear()
                await self._news.wait()
        return self.outcomes[slot]

    async def run(self, function: Callable[..., Any], payload: bytes = b"", timeout_ms: int = 0) -> Outcome:
        self.handlers.handler("it")(function)
        self.executor.start([work("it", payload=payload, timeout_ms=timeout_ms)])
        return await self.outcome()


def work(name: str, *, slot: int = 0, payload: bytes = b"", timeout_ms: int = 0) -> Work:
    target = Target(type=TargetType.HANDLER, name=name, timeout_ms=timeout_ms)
    return Work(slot, b"j" * 16, 1_790_000_000_123, 77, 2, 4, 2, "acme", target, payload, "key-1", "n")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    await desk.executor.aclose(0)


def test_context_that_is_printed_names_the_run_and_no_payload() -> None:
    shown = repr(HandlerContext(work("it", payload=b"secret")))
    assert run_id_text(b"j" * 16, 1_790_000_000_123) in shown
    assert "attempt 2 of 4" in shown
    assert "secret" not in shown


async def test_async_handler_gets_decoded_payload_and_context(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(payload: Any, ctx: HandlerContext) -> None:
        seen.extend((payload, ctx.run_id, ctx.attempt, ctx.max_attempts, ctx.fencing_token, ctx.tenant_id))
        seen.append(ctx.scheduled_at)
        seen.append(ctx.idempotency_key)

    assert await desk.run(handler, b'{"a":[1,2.5,null]}') is OK
    instant = datetime(2026, 9, 21, 14, 13, 20, 123000, tzinfo=UTC)
    run_id = run_id_text(b"j" * 16, 1_790_000_000_123)
    assert seen == [{"a": [1, 2.5, None]}, run_id, 2, 4, 77, "acme", instant, "key-1"]


async def test_plain_function_runs_on_a_thread_of_its_own(desk: Desk) -> None:
    threads: list[int] = []
    assert await desk.run(lambda: threads.append(threading.get_ident())) is OK
    assert threads != [threading.get_ident()]


async def test_missing_payload_is_none(desk: Desk) -> None:
    seen: list[Any] = []
    await desk.run(seen.append)
    assert seen == [None]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("error", "wanted", "retry_after_ms"),
    [
        (ValueError("bad luck"), OutcomeClass.RETRYABLE, None),
        (Retry("later", after_seconds=2.5), OutcomeClass.RETRYABLE, 2_500),
        (Snooze(7), OutcomeClass.SNOOZE, 7_000),
        (Fail("no such customer"), OutcomeClass.PERMANENT, None),
        (SystemExit(3), OutcomeClass.RETRYABLE, None),
    ],
)
async def test_what_a_handler_raises_becomes_the_outcome(
    desk: Desk, is_async: bool, error: BaseException, wanted: OutcomeClass, retry_after_ms: int | None
) -> None:
    async def handler() -> None:
        raise error

    def plain() -> None:
        raise error

    outcome = await desk.run(handler if is_async else plain)
    assert (outcome.outcome_class, outcome.retry_after_ms) == (wanted, retry_after_ms)
    assert outcome.error is not None
    assert type(error).__name__ in outcome.error


@pytest.mark.pitfall(71)
@pytest.mark.parametrize("result", ["\x00", "\ud800", b"\xff", object(), {"n": float("nan")}])
async def test_whatever_a_handler_returns_the_run_ends(desk: Desk, result: object) -> None:
    async def handler() -> object:
        return result

    assert (await desk.run(handler)).outcome_class is OutcomeClass.SUCCESS


async def test_error_text_with_nul_and_surrogates_is_storable_text(desk: Desk) -> None:
    def handler() -> None:
        raise ValueError("a\x00b\ud800c" + "x" * 10_000)

    outcome = await desk.run(handler)
    assert outcome.error is not None
    assert len(outcome.error.encode("utf-8")) <= 2_048


async def test_async_handler_over_its_timeout_is_interrupted(desk: Desk) -> None:
    async def handler() -> None:
        await asyncio.sleep(60)

    outcome = await desk.run(handler, timeout_ms=50)
    assert outcome.outcome_class is OutcomeClass.TIMEOUT


async def test_cancelled_attempt_is_reported_as_cancelled(desk: Desk) -> None:
    begun = asyncio.Event()

    async def handler() -> None:
        begun.set()
        await asyncio.sleep(60)

    desk.handlers.handler("it")(handler)
    desk.executor.start([work("it")])
    await begun.wait()
    desk.executor.cancel([0, 5])
    assert (await desk.outcome()).outcome_class is OutcomeClass.CANCELLED


async def test_plain_function_sees_that_it_was_cancelled(desk: Desk) -> None:
    begun, seen = threading.Event(), threading.Event()

    def handler(payload: Any, ctx: HandlerContext) -> None:
        begun.set()
        for _ in range(1_000):
            if ctx.cancelled:
                seen.set()
                return
            threading.Event().wait(0.01)

    desk.handlers.handler("it")(handler)
    desk.executor.start([work("it")])
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    desk.executor.cancel([0])
    await desk.outcome()
    assert seen.is_set()


async def test_close_hands_back_what_has_not_ended_and_does_not_wait_for_deaf_threads(desk: Desk) -> None:
    release, begun = threading.Event(), threading.Event()

    def deaf() -> None:
        begun.set()
        release.wait(PATIENCE_S)

    async def sleeper() -> None:
        await asyncio.sleep(60)

    desk.handlers.handler("deaf")(deaf)
    desk.handlers.handler("sleeper")(sleeper)
    desk.executor.start([work("deaf", slot=0), work("sleeper", slot=1)])
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    await desk.executor.aclose(20)
    assert {slot: outcome.outcome_class for slot, outcome in desk.outcomes.items()} == {
        0: OutcomeClass.UNSTARTED,
        1: OutcomeClass.UNSTARTED,
    }
    release.set()


class Untellable(Exception):
    """Fails again when it is shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


async def test_error_that_has_no_text_ends_the_attempt(desk: Desk) -> None:
    def plain() -> None:
        raise Untellable

    async def coroutine() -> None:
        raise Untellable

    desk.handlers.handler("plain")(plain)
    desk.handlers.handler("coroutine")(coroutine)
    desk.executor.start([work("plain", slot=0), work("coroutine", slot=1)])
    for slot in range(2):
        outcome = await desk.outcome(slot)
        assert (outcome.outcome_class, outcome.error) == (OutcomeClass.RETRYABLE, "Untellable")


@pytest.mark.parametrize("seconds", [1e18, float("inf")])
def test_wait_beyond_the_horizon_is_cut(seconds: float) -> None:
    assert Snooze(seconds).after_ms == Retry(after_seconds=seconds).after_ms == HORIZON_MS


async def test_more_plain_calls_than_threads_all_run_and_reports_come_in_batches(desk: Desk) -> None:
    desk.handlers.handler("it")(lambda: None)
    desk.executor.start([work("it", slot=slot) for slot in range(500)])
    for slot in range(500):
        assert await desk.outcome(slot) is OK
    assert len(desk.reports) < 500


async def test_absent_handler_fails_for_good_and_names_the_known_ones(desk: Desk) -> None:
    desk.handlers.handler("known")(lambda: None)
    desk.executor.start([work("absent")])
    outcome = await desk.outcome()
    assert outcome.outcome_class is OutcomeClass.PERMANENT
    assert outcome.error == "no handler is named 'absent'; registered here: known"


def test_two_handlers_of_one_name_are_refused() -> None:
    handlers = Handlers()

    @handlers.handler("x")
    def first() -> None: ...

    with pytest.raises(ValueError, match="two handlers are named 'x'"):

        @handlers.handler("x")
        def second() -> None: ...


def test_handler_that_wants_more_than_payload_and_context_is_refused() -> None:
    with pytest.raises(ValueError, match="payload and a context"):
        Handlers().handler("x")(lambda a, b, c: None)


def test_app_module_is_found_in_the_current_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tickwheel.adapters.handlers.loading import load_handlers
    from tickwheel.domain.errors import ConfigError

    (tmp_path / "handlers_of_a_test.py").write_text(
        "from tickwheel.adapters.handlers.registry import Handlers\n"
        "app = Handlers()\n"
        "app.handler('hello')(lambda: None)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_handlers("handlers_of_a_test:app").names == ("hello",)
    with pytest.raises(ConfigError, match="can't import 'not_there'"):
        load_handlers("not_there:app")


async def test_plain_call_that_is_cancelled_in_the_queue_never_runs(desk: Desk) -> None:
    release, ran = threading.Event(), list[int]()
    desk.handlers.handler("blocking")(lambda: release.wait(PATIENCE_S))
    desk.handlers.handler("queued")(lambda: ran.append(1))
    desk.executor.start([work("blocking", slot=slot) for slot in range(4)])  # as many as there are threads
    desk.executor.start([work("queued", slot=9)])
    desk.executor.cancel([9])
    assert (await desk.outcome(9)).outcome_class is OutcomeClass.CANCELLED
    release.set()
    for slot in range(4):
        assert (await desk.outcome(slot)).outcome_class is OutcomeClass.SUCCESS
    assert ran == []


async def test_close_of_an_idle_executor_waits_for_nothing(desk: Desk) -> None:
    desk.executor.start([])
    async with asyncio.timeout(PATIENCE_S):
        await desk.executor.aclose(3_600_000)


async def test_coroutine_that_has_not_begun_is_handed_back_at_once(desk: Desk) -> None:
    begun = asyncio.Event()

    async def handler() -> None:
        begun.set()

    desk.handlers.handler("it")(handler)
    desk.executor.start([work("it")])
    await desk.executor.aclose(20)
    assert desk.outcomes[0].outcome_class is OutcomeClass.UNSTARTED
    assert not begun.is_set()
