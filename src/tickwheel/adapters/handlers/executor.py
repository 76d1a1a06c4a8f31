"""Runs handlers: coroutines on the event loop, plain functions on threads, others in processes apart.

Reports are collected and given once per turn of the loop. An async handler that is cancelled, or runs into its
target's timeout, is interrupted where it awaits. A thread cannot be interrupted: its context's `cancelled` turns
true, and its result counts when it returns, late or not; the ledger refuses it if the run has moved on meanwhile.
A process is killed.
"""

import asyncio
import math
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.coroutines import Coroutines
from tickwheel.adapters.handlers.frames import Call
from tickwheel.adapters.handlers.outcomes import (
    CANCELLED,
    UNSTARTED,
    failure,
    outcome_of_error,
    outcome_of_return,
)
from tickwheel.adapters.handlers.processes import ChildProcesses
from tickwheel.adapters.handlers.registry import Handlers, Registered
from tickwheel.adapters.handlers.threads import WorkerThreads
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Progress, Report, Work

DEADLINE_CHECK_S: Final = 0.05
"""A handler is interrupted at most this long after its timeout."""


class Attempt(HandlerContext):
    """One call in progress; what the handler sees of it is the part that it inherits."""

    __slots__ = ("begun", "deadline_s", "executor", "handler", "task", "timed_out", "withdrawn", "work")

    def __init__(self, work: Work, handler: Registered | None, executor: "HandlerExecutor") -> None:
        """Made for each run, so nothing is set here that most handlers never touch: `_beat` is there once told."""
        self._work = self.work = work
        self.handler, self.executor = handler, executor
        self.task: asyncio.Task[None] | None = None  # of a coroutine that has begun
        self.deadline_s = math.inf  # on the loop's clock
        self.cancelled = self.timed_out = self.begun = self.withdrawn = False

    @property
    def deadline_ms(self) -> int | None:
        """Found out when it is asked for: most handlers never do."""
        return None if self.deadline_s == math.inf else self.executor.wall_ms(self.deadline_s)

    def _tell(self) -> None:
        """On whatever thread the handler runs."""
        self.executor.hear(self)


class HandlerExecutor:
    """Implements `ports.executor.Executor` for targets of type HANDLER."""

    def __init__(
        self,
        *,
        handlers: Handlers,
        report: Report,
        clock: Clock,
        thread_limit: int,
        progress: Progress | None = None,
        process_limit: int | None = None,
    ) -> None:
        """`progress` gets what attempts say of themselves. `process_limit` None: as many as there are cores."""
        self._handlers, self._report, self._clock = handlers, report, clock
        self._progress = progress
        self._speaking: set[Attempt] = set()  # has said something that is to be passed on
        self._loop = asyncio.get_running_loop()
        self._threads = WorkerThreads(thread_limit, self._wake)
        self._coroutines = Coroutines(loop=self._loop, begin=self._begin_coroutine, end=self._end_coroutine)
        self._processes = ChildProcesses[Attempt](
            limit=process_limit or os.cpu_count() or 1,
            begin=self._begin_in_child,
            end=self._end_in_child,
            say=self._say,
        )
        self._attempts: dict[int, Attempt] = {}
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
            attempt = self._attempts[work.slot] = Attempt(work, registered, self)
            if self._closing:
                self._end(attempt, UNSTARTED)
            elif registered is None:
                self._end(attempt, _no_such_handler(work.target.name, self._handlers))
            elif registered.in_process:
                self._watch()
                self._processes.submit(attempt)
            elif registered.is_async:
                self._coroutines.submit(attempt)
            else:
                self._watch()
                self._threads.submit(partial(self._call_plain, attempt, registered))

    def cancel(self, slots: Sequence[int]) -> None:
        for slot in slots:
            attempt = self._attempts.get(slot)
            if attempt is not None:
                self._interrupt(attempt)

    def withdraw(self, slots: Sequence[int]) -> Sequence[int]:
        """Take back those of these attempts that have not begun; they are reported UNSTARTED."""
        found = [self._attempts[slot] for slot in slots if slot in self._attempts]
        withdrawn = [attempt for attempt in found if self._withdraw(attempt)]
        for attempt in withdrawn:
            self._end(attempt, NOT_BEGUN)
        return [attempt.work.slot for attempt in withdrawn]

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
        await self._processes.aclose()

    def wall_ms(self, loop_s: float) -> int:
        """An instant of the loop's clock as an epoch instant."""
        return self._clock.now_ms() + int((loop_s - self._loop.time()) * 1000)

    def hear(self, attempt: Attempt) -> None:
        """It has said something of itself. Any thread."""
        if self._progress is None or attempt in self._speaking or self._loop.is_closed():
            return
        self._speaking.add(attempt)
        self._loop.call_soon_threadsafe(self._pass_on, attempt)

    def _pass_on(self, attempt: Attempt) -> None:
        self._speaking.discard(attempt)  # before it is read: what is said from now on is told anew
        slot = attempt.work.slot
        if self._progress is not None and self._attempts.get(slot) is attempt:
            self._progress(slot, attempt._beat)

    async def _wait_for_ends(self, grace_ms: int) -> None:
        ended = asyncio.ensure_future(self._all_ended.wait())
        limit = asyncio.ensure_future(self._clock.sleep_ms(grace_ms))
        await asyncio.wait((ended, limit), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        limit.cancel()
        await asyncio.gather(ended, limit, return_exceptions=True)

    def _begin_coroutine(self, attempt: Attempt, task: "asyncio.Task[None]") -> Coroutine[Any, Any, Any] | None:
        if attempt.withdrawn or attempt.handler is None:
            return None
        attempt.begun, attempt.task = True, task
        timeout_ms = attempt.work.target.timeout_ms
        if timeout_ms:
            attempt.deadline_s = self._loop.time() + timeout_ms / 1000
            if not self._watching:
                self._watch()
        try:
            arguments = attempt.handler.arguments(attempt.work.payload, attempt)
            coroutine: Coroutine[Any, Any, Any] = attempt.handler.function(*arguments)
        except BaseException as error:  # a payload that can't be decoded, an argument that is missing
            self._end_coroutine(attempt, error, None)
            return None
        return coroutine

    def _end_coroutine(self, attempt: Attempt, error: BaseException | None, value: Any) -> None:
        if error is None:
            self._end(attempt, OK if value is None else outcome_of_return(value))
        elif isinstance(error, asyncio.CancelledError):
            self._end(attempt, _interrupted(attempt))
        else:  # also SystemExit: a handler must not be able to end the process
            self._end(attempt, outcome_of_error(error))

    def _begin_in_child(self, attempt: Attempt) -> Call | None:
        """What the process is to do; None: nothing any more."""
        if attempt.handler is None or attempt.withdrawn:
            return None
        attempt.begun = True
        timeout_ms = attempt.work.target.timeout_ms
        if timeout_ms:
            attempt.deadline_s = self._loop.time() + timeout_ms / 1000
        return Call.of(attempt.handler, attempt.work, attempt.deadline_ms)

    def _end_in_child(self, attempt: Attempt, outcome: Outcome) -> None:
        """`outcome` is LOST where the process is gone; here is known whether it was killed for a reason."""
        killed = attempt.cancelled and outcome.outcome_class is OutcomeClass.LOST
        self._end(attempt, _interrupted(attempt) if killed else outcome)

    def _say(self, attempt: Attempt, said: ProgressNote) -> None:
        attempt._beat = said
        self._pass_on(attempt)

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._loop.call_later(DEADLINE_CHECK_S, self._watch_deadlines)

    def _interrupt(self, attempt: Attempt) -> None:
        attempt.cancelled = True
        if self._withdraw(attempt):
            self._end(attempt, _interrupted(attempt))
        elif attempt.task is not None:
            attempt.task.cancel()
        elif attempt.handler is not None and attempt.handler.in_process:
            self._processes.kill(attempt)

    def _withdraw(self, attempt: Attempt) -> bool:
        """Keep an attempt that has not begun from beginning; False if it has."""
        with self._beginning:
            if attempt.begun:
                return False
            attempt.withdrawn = True
        return True

    def _watch_deadlines(self) -> None:
        """One look at all attempts now and then, instead of a timer for each: nearly all end long before."""
        now_s = self._loop.time()
        for attempt in [a for a in self._attempts.values() if a.deadline_s <= now_s and not a.timed_out]:
            attempt.timed_out = True
            self._interrupt(attempt)
        self._watching = bool(self._attempts) and not self._closed
        if self._watching:
            self._loop.call_later(DEADLINE_CHECK_S, self._watch_deadlines)

    def _call_plain(self, attempt: Attempt, registered: Registered) -> Callable[[], None]:
        """On a thread: call the function; the result is delivered on the loop."""
        with self._beginning:
            if attempt.withdrawn:
                return _nothing
            attempt.begun = True
        timeout_ms = attempt.work.target.timeout_ms
        if timeout_ms:
            attempt.deadline_s = self._loop.time() + timeout_ms / 1000
        try:
            value = registered.function(*registered.arguments(attempt.work.payload, attempt))
            outcome = OK if value is None else outcome_of_return(value)
        except BaseException as error:  # whatever a handler raises ends its attempt, not the thread
            outcome = outcome_of_error(error)
        return lambda: self._end(attempt, outcome)

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
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


NOT_BEGUN: Final = Outcome(outcome_class=OutcomeClass.UNSTARTED, error="handed back: it did not begin here")


def _nothing() -> None:
    """What a withdrawn call delivers: its end is told already."""


def _interrupted(attempt: Attempt) -> Outcome:
    if attempt.timed_out:
        limit_ms = attempt.work.target.timeout_ms
        return failure(OutcomeClass.TIMEOUT, f"the handler ran longer than {limit_ms} ms")
    if attempt.cancelled:
        return CANCELLED
    return failure(OutcomeClass.RETRYABLE, "the handler cancelled itself")


def _no_such_handler(name: str, handlers: Handlers) -> Outcome:
    known = ", ".join(handlers.names) or "none"
    return failure(OutcomeClass.PERMANENT, f"no handler is named {name!r}; registered here: {known}")
