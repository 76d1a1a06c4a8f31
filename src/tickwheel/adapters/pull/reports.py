"""Ends on their way to the server: in batches, each sent again until the server has said what became of it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.adapters.pull.calls import Calls, Refused, Unauthorized
from tickwheel.adapters.pull.wire import EndsAnswer, end_body, run_id
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, LoopFailed
from tickwheel.ports.remote_work import Ended

BATCH_RUNS: Final = 500
BATCH_BYTES: Final = 4 << 20
FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 2_000
_COMPLETE: Final = "/v1/workers/complete"
_FAIL: Final = "/v1/workers/fail"
UNWRITTEN: Final = "unwritten"
"""The server's store could not write it just then."""


class ReportQueue:
    """`on_settled` gets each end of which nothing more is to be said."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        events: EventSink,
        *,
        worker: Callable[[], str],
        on_settled: Callable[[Ended], None],
    ) -> None:
        self._calls, self._clock, self._events = calls, clock, events
        self._worker, self._on_settled = worker, on_settled
        self._waiting: list[Ended] = []
        self._added = self._settled = 0
        self._pause_ms = FIRST_PAUSE_MS
        self._more, self._progress = asyncio.Event(), asyncio.Event()

    @property
    def pending(self) -> int:
        """Ends that are not settled."""
        return self._added - self._settled

    def add(self, ends: Sequence[Ended]) -> None:
        """Send them soon."""
        self._waiting += ends
        self._added += len(ends)
        self._more.set()

    async def flushed(self) -> None:
        """Until all that was added before is settled."""
        goal = self._added
        while self._settled < goal:
            self._progress.clear()
            await self._progress.wait()

    async def run(self) -> None:
        """Send for ever, one batch at a time; what is reported meanwhile makes the next one."""
        while True:
            await self._more.wait()
            batch = self._next_batch()
            if not batch:
                self._more.clear()
                continue
            good = [ended for ended in batch if ended.outcome.outcome_class is OutcomeClass.SUCCESS]
            bad = [ended for ended in batch if ended.outcome.outcome_class is not OutcomeClass.SUCCESS]
            left = await asyncio.gather(self._send(_COMPLETE, good), self._send(_FAIL, bad))
            self._waiting[:0] = [*left[0], *left[1]]
            if not left[0] and not left[1]:
                self._pause_ms = FIRST_PAUSE_MS
                continue
            await self._clock.sleep_ms(self._pause_ms)
            self._pause_ms = min(LONGEST_PAUSE_MS, self._pause_ms * 2)

    def _next_batch(self) -> list[Ended]:
        count = size_bytes = 0
        for ended in self._waiting[:BATCH_RUNS]:
            size_bytes += len(ended.outcome.result or b"") + len(ended.outcome.error or "")
            if count and size_bytes > BATCH_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _send(self, path: str, ends: Sequence[Ended]) -> list[Ended]:
        """Gives what has to be sent again."""
        if not ends:
            return []
        body: dict[str, Any] = {"worker_id": self._worker(), "runs": [end_body(ended) for ended in ends]}
        try:
            answer = await self._calls.post(path, body, EndsAnswer)
        except (ConnectionError, Unauthorized) as error:
            self._tell(error, self._pause_ms)
            return list(ends)
        except Refused as error:  # of many, one is to blame
            if len(ends) > 1:
                middle = len(ends) // 2
                return await self._send(path, ends[:middle]) + await self._send(path, ends[middle:])
            self._tell(error, 0)
            self._settle(ends[0])
            return []
        reasons = {one.run_id: one.reason for one in answer.runs}
        again = []
        for ended in ends:
            if reasons.get(run_id(ended.assignment)) == UNWRITTEN:
                again.append(ended)
            else:
                self._settle(ended)
        return again

    def _settle(self, ended: Ended) -> None:
        self._settled += 1
        self._progress.set()
        self._on_settled(ended)

    def _tell(self, error: Exception, retry_in_ms: int) -> None:
        self._events.emit(LoopFailed(loop="worker report", error=str(error), retry_in_ms=retry_in_ms))
