"""Runs handlers: coroutines on the event loop, plain functions on threads.

Reports are collected and given once per turn of the loop. An async handler that is cancelled, or runs into its
target's timeout, is interrupted where it awaits. A thread cannot be interrupted: its context's `cancelled` turns
true, and its result counts when it returns, late or not; the ledger refuses it if the run has moved on meanwhile.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tickwheel.adapters.handlers.coroutines import Coroutines
from tickwheel.adapters.handlers.registry import Fail, HandlerContext, Handlers, Registered, Retry, Snooze
from tickwheel.adapters.handlers.threads import WorkerThreads
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, clip_text
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Report, Work

DEADLINE_CHECK_S: Final = 0.05
"""A handler is interrupted at most this long after its timeout."""
_DECODE: Final = msgspec.json.Decoder().decode


class _Attempt(HandlerContext):
    """One call in progress; what the handler sees of it is the part that it inherits."""

    __slots__ = ("begun", "deadline_s", "handler", "task", "timed_out", "withdrawn", "work")

    def __init__(self, work: Work, handler: Registered | None) -> None:
        self._work = self.work = work
        self.handler = handler
        self.task: asyncio.Task[None] | None = None  # of a coroutine that has begun
        self.deadline_s = math.inf  # on the loop's clock; coroutines only
        self.cancelled = self.timed_out = self.begun = self.withdrawn = False


class HandlerExecutor:
    """Implements `ports.executor.Executor` for targets of type HANDLER."""

    def __init__(self, *, handlers: Handlers, report: Report, clock: Clock, thread_limit: int) -> None:
        self._handlers, self._report, self._clock = handlers, report, clock
        self._loop = asyncio.get_running_loop()
        self._threads = WorkerThreads(thread_limit, self._wake)
        self._coroutines = Coroutines(loop=self._loop, begin=self._begin_coroutine, end=self._end_coroutine)
        self._attempts: dict[int, _Attempt] = {}
        self._slots: list[int] = []
        self._outcomes: list[Outcome] = []
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._closing = self._closed = False
        self._watching = False
        self._beginning = threading.Lock()  # a thread begins, or the loop withdraws: not both

    def start(self, works: Sequence[Work]) -> None:
        if works:
            self._all_ended.clear()
        for work in works:
            registered = self._handlers.get(work.target.name)
            attempt = self._attempts[work.slot] = _Attempt(work, registered)
            if self._closing:
                self._end(attempt, UNSTARTED)
            elif registered is None:
                self._end(attempt, _no_such_handler(work.target.name, self._handlers))
            elif registered.is_async:
                self._coroutines.submit(attempt)
            else:
                self._threads.submit(partial(self._call_plain, attempt, registered))

    def cancel(self, slots: Sequence[int]) -> None:
        for slot in slots:
            attempt = self._attempts.get(slot)
            if attempt is not None:
                self._interrupt(attempt)

    async def aclose(self, grace_ms: int) -> None:
        self._closing = True
        self._threads.withdraw()
        for attempt in [a for a in self._attempts.values() if self._withdraw(a)]:
            self._end(attempt, UNSTARTED)
        await self._wait_for_ends(grace_ms)
        for attempt in list(self._attempts.values()):
            self._end(attempt, UNSTARTED)
            self._interrupt(attempt)
        self._flush()
        self._closed = True
        self._threads.stop()

    async def _wait_for_ends(self, grace_ms: int) -> None:
        ended = asyncio.ensure_future(self._all_ended.wait())
        limit = asyncio.ensure_future(self._clock.sleep_ms(grace_ms))
        await asyncio.wait((ended, limit), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        limit.cancel()
        await asyncio.gather(ended, limit, return_exceptions=True)

    def _begin_coroutine(self, attempt: _Attempt, task: "asyncio.Task[None]") -> Coroutine[Any, Any, Any] | None:
        if attempt.withdrawn or attempt.handler is None:
            return None
        attempt.begun, attempt.task = True, task
        timeout_ms = attempt.work.target.timeout_ms
        if timeout_ms:
            attempt.deadline_s = self._loop.time() + timeout_ms / 1000
            if not self._watching:
                self._watching = True
                self._loop.call_later(DEADLINE_CHECK_S, self._watch_deadlines)
        try:
            coroutine: Coroutine[Any, Any, Any] = attempt.handler.function(*_arguments(attempt, attempt.handler))
        except BaseException as error:  # a payload that can't be decoded, an argument that is missing
            self._end_coroutine(attempt, error)
            return None
        return coroutine

    def _end_coroutine(self, attempt: _Attempt, error: BaseException | None) -> None:
        if error is None:
            self._end(attempt, OK)
        elif isinstance(error, asyncio.CancelledError):
            self._end(attempt, _interrupted(attempt))
        else:  # also SystemExit: a handler must not be able to end the process
            self._end(attempt, _outcome_of(error))

    def _interrupt(self, attempt: _Attempt) -> None:
        attempt.cancelled = True
        if self._withdraw(attempt):
            self._end(attempt, _interrupted(attempt))
        elif attempt.task is not None:
            attempt.task.cancel()

    def _withdraw(self, attempt: _Attempt) -> bool:
        """Keep an attempt that has not begun from beginning; False if it has."""
        with self._beginning:
            if attempt.begun:
                return False
            attempt.withdrawn = True
        return True

    def _watch_deadlines(self) -> None:
        """One look at all attempts now and then, instead of a timer for each: nearly all end long before."""
        now_s = self._loop.time()
        for attempt in [a for a in self._attempts.values() if a.deadline_s <= now_s]:
            attempt.deadline_s, attempt.timed_out = math.inf, True
            self._interrupt(attempt)
        self._watching = bool(self._attempts) and not self._closed
        if self._watching:
            self._loop.call_later(DEADLINE_CHECK_S, self._watch_deadlines)

    def _call_plain(self, attempt: _Attempt, registered: Registered) -> Callable[[], None]:
        """On a thread: call the function; the result is delivered on the loop."""
        with self._beginning:
            if attempt.withdrawn:
                return _nothing
            attempt.begun = True
        try:
            registered.function(*_arguments(attempt, registered))
            outcome = OK
        except BaseException as error:  # whatever a handler raises ends its attempt, not the thread
            outcome = _outcome_of(error)
        return lambda: self._end(attempt, outcome)

    def _end(self, attempt: _Attempt, outcome: Outcome) -> None:
        slot = attempt.work.slot
        if self._attempts.get(slot) is not attempt:
            return  # already reported when the executor closed
        del self._attempts[slot]
        if not self._slots:
            self._loop.call_soon(self._flush)
        self._slots.append(slot)
        self._outcomes.append(outcome)

    def _flush(self) -> None:
        if not self._slots:
            return
        slots, outcomes = self._slots, self._outcomes
        self._slots, self._outcomes = [], []
        self._report(slots, outcomes)
        if not self._attempts:
            self._all_ended.set()

    def _wake(self, deliver: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deliver)


UNSTARTED: Final = Outcome(outcome_class=OutcomeClass.UNSTARTED, error="handed back: the process is stopping")
CANCELLED: Final = Outcome(outcome_class=OutcomeClass.CANCELLED, error="cancelled")


def _nothing() -> None:
    """What a withdrawn call delivers: its end is told already."""


def _interrupted(attempt: _Attempt) -> Outcome:
    if attempt.timed_out:
        limit_ms = attempt.work.target.timeout_ms
        return _failure(OutcomeClass.TIMEOUT, f"the handler ran longer than {limit_ms} ms")
    if attempt.cancelled:
        return CANCELLED
    return _failure(OutcomeClass.RETRYABLE, "the handler cancelled itself")


def _arguments(attempt: _Attempt, registered: Registered) -> tuple[Any, ...]:
    if registered.argument_count == 0:
        return ()
    payload = _DECODE(attempt.work.payload) if attempt.work.payload else None
    return (payload,) if registered.argument_count == 1 else (payload, attempt)


def _outcome_of(error: BaseException) -> Outcome:
    text = clip_text(_told(error))
    if isinstance(error, Fail):
        return _failure(OutcomeClass.PERMANENT, text)
    if isinstance(error, Snooze):
        return Outcome(outcome_class=OutcomeClass.SNOOZE, error=text, retry_after_ms=error.after_ms)
    if isinstance(error, Retry):
        return Outcome(outcome_class=OutcomeClass.RETRYABLE, error=text, retry_after_ms=error.after_ms)
    return _failure(OutcomeClass.RETRYABLE, text)


def _told(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except BaseException:  # the user's own __str__ may raise anything, and the attempt has to end all the same
        return name


def _no_such_handler(name: str, handlers: Handlers) -> Outcome:
    known = ", ".join(handlers.names) or "none"
    return _failure(OutcomeClass.PERMANENT, f"no handler is named {name!r}; registered here: {known}")


def _failure(outcome_class: OutcomeClass, error: str) -> Outcome:
    return Outcome(outcome_class=outcome_class, error=error)
