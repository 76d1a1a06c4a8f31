"""A whole node on SQLite and a virtual clock, asked through its HTTP API; it can be stopped, killed, restarted.

Only the ends are not real: time, and the targets, which do as they are told. The database works on threads that
virtual time knows nothing of, so the clock moves on only when no call to the store is under way.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tickwheel.adapters.sqlite import SqliteStore, open_sqlite_store
from tickwheel.adapters.sqlite.connection import DATABASE_NAME
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.requests.instants import parse_instant
from tickwheel.ports.executor import Work
from tickwheel.services.scheduler import SchedulerSettings
from tickwheel.testing.idle_loop import until_idle
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

from ..interfaces.http.world import HttpWorld

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
ENDPOINT = "https://example.com/hook"


class NodeClock(VirtualClock):
    """Waits for calls to the store before time goes on."""

    def __init__(self, start_ms: int) -> None:
        super().__init__(start_ms)
        self.calls_open = 0
        self._call_ended = asyncio.Event()

    async def advance(self, length_ms: int) -> None:
        until_ms = self.virtual_ms() + length_ms
        await self.settle()
        while (wake_ms := self.next_wake_ms) is not None and wake_ms <= until_ms:
            self.step_ms(max(0, wake_ms - self.virtual_ms()))
            await self.settle()
        self.step_ms(until_ms - self.virtual_ms())
        await self.settle()

    def virtual_ms(self) -> int:
        """The time that sleepers wait for, whatever a subclass tells its readers."""
        return VirtualClock.now_ms(self)

    async def settle(self) -> None:
        """Let everything end that can end without time."""
        await until_idle()
        while self.calls_open:
            self._call_ended.clear()
            await self._call_ended.wait()
            await until_idle()

    def call_ended(self) -> None:
        self.calls_open -= 1
        self._call_ended.set()


class CountedStore:
    """A store whose calls under way the clock knows of."""

    def __init__(self, store: SqliteStore, clock: NodeClock) -> None:
        self._store, self._clock = store, clock

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        async def call(*args: Any, **options: Any) -> Any:
            self._clock.calls_open += 1
            try:
                return await verb(*args, **options)
            finally:
                self._clock.call_ended()

        return call


class Node(HttpWorld):
    """`open` first, `close` at the end; `client` asks its API."""

    def __init__(
        self,
        folder: Path,
        *,
        at: str = "",
        clock: NodeClock | None = None,
        slots: int = 16,
        lease_ms: int = 30_000,
    ) -> None:
        settings = SchedulerSettings(webhook_slots=slots, handler_slots=slots, lease_ms=lease_ms)
        super().__init__(settings=settings)
        self.clock: NodeClock = clock or NodeClock(parse_instant(at) if at else START_MS)
        self._folder, self.database = folder, folder / DATABASE_NAME
        self.behave = self._behave
        self.work_ms: Callable[[Work], int] = lambda work: 0
        self.outcome: Callable[[Work], Outcome] = lambda work: OK
        self._working: set[asyncio.Task[None]] = set()

    async def open(self, *tokens: str) -> "Node":
        self.sqlite = await open_sqlite_store(self._folder, self.clock)
        self.store = CountedStore(self.sqlite, self.clock)
        await super().open(*tokens)
        await self.clock.settle()
        return self

    async def stop(self, grace_ms: int = 0) -> None:
        """As SIGTERM does."""
        draining = asyncio.ensure_future(self.scheduler.drain(grace_ms))
        while not draining.done():
            await self.clock.advance(100)
        await self._end()

    async def close(self) -> None:
        """As kill -9 does: nothing of it speaks again."""
        await self.crash(self.scheduler)
        await self._end()

    async def _end(self) -> None:
        for working in self._working:
            working.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self.clock.settle()
        await self.sqlite.aclose()

    async def down_until(self, instant: str | int, *, killed: bool = False) -> None:
        """Stopped, or killed, now; started again then."""
        await (self.close() if killed else self.stop())
        self.clock.step_ms(_ms(instant) - self.now())
        await self.open()

    def now(self) -> int:
        return self.clock.now_ms()

    async def until(self, instant: str | int) -> None:
        """Step by step until then; for hours without any work, `leap` is quicker."""
        await self.clock.advance(_ms(instant) - self.now())

    async def leap(self, instant: str | int) -> None:
        """At once until a second before; from there step by step until a second after."""
        at_ms = _ms(instant)
        if at_ms - SECOND_MS > self.now():
            self.clock.step_ms(at_ms - SECOND_MS - self.now())
        await self.until(at_ms + SECOND_MS)

    async def states(self, job_id: str) -> list[tuple[str, str]]:
        """(scheduled_at, status or skip reason) of every run that the API shows, oldest first."""
        reply = await self.client.get(f"/v1/jobs/{job_id}/runs?limit=1000")
        assert reply.json["next_cursor"] is None
        runs = sorted(reply.json["runs"], key=lambda run: run["scheduled_at"])
        return [(run["scheduled_at"], run["skip_reason"] or run["status"]) for run in runs]

    async def due(self, job_id: str) -> str | None:
        """When the job comes next, as its reader sees it."""
        answer: str | None = (await self.get(job_id)).json["next_run_time_iso"]
        return answer

    async def preview(self, expression: str, zone: str, start: str, count: int) -> list[str]:
        """What the preview promises, in UTC."""
        body = {"cron_expression": expression, "timezone": zone, "start": start, "count": count}
        reply = await self.client.post("/v1/schedules/preview", body)
        assert reply.status == 200, reply.body
        times: list[str] = reply.json["next"]
        return times

    def _behave(self, work: Work) -> Outcome | None:
        length_ms = self.work_ms(work)
        if not length_ms:
            return self.outcome(work)
        working = asyncio.get_running_loop().create_task(self._work(work, length_ms))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        return None

    async def _work(self, work: Work, length_ms: int) -> None:
        await self.clock.sleep_ms(length_ms)
        for executor in self.executors:
            if executor.open.get(work.slot) is work:
                executor.finish(work.slot, self.outcome(work))


def _ms(instant: str | int) -> int:
    return parse_instant(instant) if isinstance(instant, str) else instant
