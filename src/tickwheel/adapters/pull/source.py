"""Work from a server over HTTP: `ports.remote_work.WorkSource` by the pull protocol.

At any time one poll is pending, also while there is no room: its connection tells the server at once that this
process has died, and it brings the news that a run was cancelled. A poll tells all that is held, ends under way
included; what the server has given and does not find there never arrived, and it takes it back. So when a poll is
given up for another one (there is room now that there was not), what comes of the old one is void: it is not
looked at, and the new one does not tell it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from tickwheel.adapters.pull.calls import Calls
from tickwheel.adapters.pull.reports import ReportQueue
from tickwheel.adapters.pull.wire import HeartbeatAnswer, LeaveAnswer, PollAnswer, beat_body, run_id
from tickwheel.domain.job import Lane
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.remote_work import Assignment, Beat, Ended, Key, Room, SessionOver, Taken
from tickwheel.ports.workers import SESSION_MS, WorkerNote

FREE_LIMIT: Final = 1_000
"""Most runs of one poll."""
HOLDING_LIMIT: Final = 10_000
"""Most runs that a poll may tell as held; a worker that holds more takes nothing, and tells none of them."""
BEATS_LIMIT: Final = 1_000
LEAVE_MS: Final = 2_000
QUICK_MS: Final = 500
"""A server that answers a poll with nothing sooner than this, although it should wait, is stopping."""
PAUSE_MS: Final = 100


class HttpSource:
    """One worker's. `aclose` it after `leave`."""

    def __init__(
        self,
        calls: Calls,
        *,
        handlers: Sequence[str],
        webhooks: bool,
        clock: Clock,
        events: EventSink,
    ) -> None:
        self._calls, self._clock = calls, clock
        self._handlers, self._webhooks = list(handlers), webhooks
        self._worker_id = ""
        self._session_ms, self._lease_ms = SESSION_MS, 2 * SESSION_MS
        self._given: dict[Key, str] = {}  # all that is held, with the run's id; ends under way included
        self._polls: set[asyncio.Task[PollAnswer]] = set()
        self._reports = ReportQueue(
            self._calls, clock, events, worker=lambda: self._worker_id, on_settled=self._drop
        )

    @property
    def session_ms(self) -> int:
        return self._session_ms

    @property
    def lease_ms(self) -> int:
        return self._lease_ms

    @property
    def pending(self) -> int:
        return self._reports.pending

    @property
    def worker_id(self) -> str:
        """What the server calls this worker; empty before the first answer."""
        return self._worker_id

    async def enlist(self, note: WorkerNote) -> None:
        if not self._worker_id:
            self._note_answer(await self._poll(self._question({}, 0, 0, note), 0))

    async def beat(self, note: WorkerNote) -> None:
        await self._heartbeat([])

    async def take(self, room: Room, wait_ms: int, note: WorkerNote) -> Taken:
        busy = {Lane(lane).name: count for lane, count in enumerate(room.busy)}
        asked_as = self._worker_id
        began_ms = self._clock.monotonic_ms()
        polling = asyncio.create_task(self._poll(self._question(busy, room.total, wait_ms, note), wait_ms))
        self._polls.add(polling)
        polling.add_done_callback(self._polls.discard)
        answer = await asyncio.shield(polling)  # given up, it is left to end by itself: it keeps its connection
        stopped = {*answer.cancelled, *answer.lost}
        if not answer.runs and not stopped and self._clock.monotonic_ms() - began_ms < min(QUICK_MS, wait_ms):
            self._calls.look_elsewhere()
            await self._clock.sleep_ms(PAUSE_MS)
        if asked_as != self._worker_id:
            return Taken(())  # of a session that is over meanwhile
        if answer.worker_id != asked_as:
            self._note_answer(answer)  # its runs were not told, so the server takes them back
            raise SessionOver("the server had declared this worker dead")
        given = [run.assignment(began_ms) for run in answer.runs]
        for one in given:
            self._given[one.key] = run_id(one)
        return Taken(given, [key for key, name in self._given.items() if name in stopped])

    async def left_over(self) -> Sequence[Assignment]:
        return ()  # void: `leave` tells what is held

    async def renew(self, beats: Sequence[Beat]) -> Sequence[bool]:
        held: dict[str, bool] = {}
        for start in range(0, len(beats), BEATS_LIMIT):
            answer = await self._heartbeat([beat_body(beat) for beat in beats[start : start + BEATS_LIMIT]])
            held |= {one.run_id: one.status == "held" for one in answer.runs}
        return [held.get(run_id(beat.assignment), False) for beat in beats]

    def report(self, ends: Sequence[Ended]) -> None:
        self._reports.add(ends)

    def forget(self, assignments: Sequence[Assignment]) -> None:
        for one in assignments:
            self._given.pop(one.key, None)

    async def run(self) -> None:
        await self._reports.run()

    async def flushed(self) -> None:
        await self._reports.flushed()

    async def leave(self) -> None:
        body = {"worker_id": self._worker_id, "holding": list(self._given.values())}
        leaving = asyncio.ensure_future(self._calls.post("/v1/workers/leave", body, LeaveAnswer))
        limit = asyncio.ensure_future(self._clock.sleep_ms(LEAVE_MS))
        await asyncio.wait((leaving, limit), return_when=asyncio.FIRST_COMPLETED)
        for task in (leaving, limit):
            task.cancel()
        await asyncio.gather(leaving, limit, return_exceptions=True)
        await self.aclose()

    async def aclose(self) -> None:
        """Drop all connections. Again: nothing."""
        polls = list(self._polls)
        for polling in polls:
            polling.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        await self._calls.aclose()

    def _question(self, busy: Mapping[str, int], free: int, wait_ms: int, note: WorkerNote) -> dict[str, Any]:
        worker = {"name": note.name, "version": note.version or version("tickwheel")}
        if self._worker_id:
            worker["id"] = self._worker_id
        held = list(self._given.values())
        free = max(0, min(free, FREE_LIMIT, note.slots, HOLDING_LIMIT - len(held)))
        return {
            "worker": worker | {"draining": note.draining, "stalled": note.stalled},
            "handlers": self._handlers,
            "webhooks": self._webhooks,
            "slots": {"total": note.slots, "free": free, "busy": busy},
            "holding": held if len(held) <= HOLDING_LIMIT else None,
            "wait_seconds": wait_ms / 1000,
        }

    async def _poll(self, question: dict[str, Any], wait_ms: int) -> PollAnswer:
        return await self._calls.post("/v1/workers/poll", question, PollAnswer, wait_ms=wait_ms)

    async def _heartbeat(self, runs: Sequence[dict[str, Any]]) -> HeartbeatAnswer:
        body = {"worker_id": self._worker_id, "runs": runs}
        answer = await self._calls.post("/v1/workers/heartbeat", body, HeartbeatAnswer)
        if not answer.session_open:
            self._worker_id = ""
            raise SessionOver("the server has declared this worker dead")
        return answer

    def _note_answer(self, answer: PollAnswer) -> None:
        self._worker_id = answer.worker_id
        self._session_ms, self._lease_ms = int(answer.session_seconds * 1000), int(answer.lease_seconds * 1000)

    def _drop(self, ended: Ended) -> None:
        self._given.pop(ended.assignment.key, None)
