"""The asyncio client: the same requests, made by a few threads."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar, Unpack

from tickwheel.config import ServerTrust
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.batches import schedule_all
from tickwheel.interfaces.client.cause_models import CauseList
from tickwheel.interfaces.client.explanation_models import Explanation
from tickwheel.interfaces.client.flow import Flow, Outcome, Send, exchange
from tickwheel.interfaces.client.job_fields import EditFields, JobFields
from tickwheel.interfaces.client.models import (
    BatchResult,
    CreatedJob,
    DeadLetterPage,
    Health,
    Job,
    JobPage,
    Preview,
    Redriven,
    Run,
    RunPage,
    TriggeredRun,
)
from tickwheel.interfaces.client.queries import JobFilters, PageFields, PreviewFields
from tickwheel.interfaces.client.slo_models import Slo
from tickwheel.interfaces.client.transport import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Transport
from tickwheel.interfaces.client.waiting import wait_for

T = TypeVar("T")

CONNECTION_COUNT = 8


class AsyncClient:
    """Talks to a Tickwheel server from an event loop. Everything is as in `Client`, with `await`.

    Requests run on `connections` threads with a connection each; more of them wait for a free one. Cancelling a
    call gives up on its answer; a request that is under way may still be carried out.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        tenant_id: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        connections: int = CONNECTION_COUNT,
    ) -> None:
        self._tenant_id = tenant_id
        trust = ServerTrust(ca_file=ca_file, client_cert=client_cert, client_key=client_key)
        self._transport = Transport(url, token=token, timeout_ms=int(timeout_seconds * 1000), trust=trust)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="tickwheel-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; waits for requests that are under way."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def schedule(self, job: JobFields | None = None, /, **fields: Unpack[JobFields]) -> CreatedJob:
        """Create a job; it is on disk when this returns. Sent again by itself if the connection breaks.

        `client.schedule(handler="send_email", payload={"to": "ada@example.org"}, delay_seconds=60)`
        """
        return await self._run(exchange(calls.create_job({**(job or {}), **fields}, self._tenant_id)))

    async def put(self, name: str, /, **fields: Unpack[JobFields]) -> Job:
        """Create or replace the job of that name: for programs that declare their jobs at every start."""
        return await self._run(exchange(calls.put_job(name, fields, self._tenant_id)))

    async def get(self, job_id: str) -> Job:
        """The job, with its next and last run."""
        return await self._run(exchange(calls.get_job(job_id, self._tenant_id)))

    async def list(self, **filters: Unpack[JobFilters]) -> JobPage:
        """A page of jobs; go on with `cursor=page.next_cursor` until that is None."""
        return await self._run(exchange(calls.list_jobs(self._tenant_id, filters)))

    async def edit(self, job_id: str, /, *, if_version: int | None = None, **fields: Unpack[EditFields]) -> Job:
        """Change what is named; `if_version`: only if the job still has that version."""
        return await self._run(exchange(calls.edit_job(job_id, fields, self._tenant_id, if_version)))

    async def cancel(self, job_id: str) -> None:
        """End the job for good, with everything of it that waits or runs."""
        return await self._run(exchange(calls.cancel_job(job_id, self._tenant_id)))

    async def pause(self, job_id: str) -> Job:
        """Let nothing of it start until `resume`."""
        return await self._run(exchange(calls.pause_job(job_id, self._tenant_id)))

    async def resume(self, job_id: str) -> Job:
        """Go on with the next occurrence."""
        return await self._run(exchange(calls.resume_job(job_id, self._tenant_id)))

    async def trigger(self, job_id: str) -> TriggeredRun:
        """One more run, now, beside the schedule: a job of its own with one run."""
        return await self._run(exchange(calls.trigger_job(job_id, self._tenant_id)))

    async def delete(self, job_id: str) -> None:
        """Cancel it and forget the definition."""
        return await self._run(exchange(calls.delete_job(job_id, self._tenant_id)))

    async def list_runs(self, job_id: str, **page: Unpack[PageFields]) -> RunPage:
        """A page of the job's runs, latest first."""
        return await self._run(exchange(calls.list_runs(job_id, self._tenant_id, page)))

    async def get_run(self, run_id: str) -> Run:
        """The run, with every recorded attempt."""
        return await self._run(exchange(calls.get_run(run_id, self._tenant_id)))

    async def cancel_run(self, run_id: str) -> None:
        """End this run; its job goes on."""
        return await self._run(exchange(calls.cancel_run(run_id, self._tenant_id)))

    async def explain(self, run_or_job_id: str, *, at: datetime | str | None = None) -> Explanation:
        """Why a run did not run, ran late or ran twice; or what became of a job at a time.

        By default a job's latest run is explained. A text without an offset is a time in the job's zone.
        """
        return await self._run(exchange(calls.explain(run_or_job_id, at, self._tenant_id)))

    async def list_dead_letters(self, **page: Unpack[PageFields]) -> DeadLetterPage:
        """A page of runs that are out of attempts, newest first."""
        return await self._run(exchange(calls.list_dead_letters(self._tenant_id, page)))

    async def dead_letter_causes(self) -> CauseList:
        """What the dead-letter queue is full of."""
        return await self._run(exchange(calls.dead_letter_causes(self._tenant_id)))

    async def redrive(self, run_ids: Sequence[str]) -> Redriven:
        """Run these dead letters again, with all their attempts anew."""
        return await self._run(exchange(calls.redrive(run_ids, self._tenant_id)))

    async def redrive_all(self) -> Redriven:
        """Run all dead letters again."""
        return await self._run(exchange(calls.redrive(None, self._tenant_id)))

    async def delete_dead_letter(self, run_id: str) -> None:
        """Remove it from the queue; the run stays FAILED."""
        return await self._run(exchange(calls.delete_dead_letter(run_id, self._tenant_id)))

    async def preview(self, cron_expression: str, **question: Unpack[PreviewFields]) -> Preview:
        """When the expression fires, with notes about clock changes."""
        return await self._run(exchange(calls.preview_schedule({"cron_expression": cron_expression, **question})))

    async def slo(self) -> Slo:
        """How late starts are, by objective; counted by the node that answers."""
        return await self._run(exchange(calls.slo(self._tenant_id)))

    async def health(self) -> Health:
        """Who answers."""
        return await self._run(exchange(calls.health()))

    async def schedule_many(self, jobs: Iterable[JobFields]) -> BatchResult:
        """Create many jobs, thousands per commit; one result per job, in order. A bad one fails no other."""
        return await self._run(schedule_all(jobs, self._tenant_id))

    async def wait_for(self, run_or_job_id: str, *, timeout_seconds: float = 60.0) -> Run:
        """The run once it has ended, well or not; of a recurring job, the first that ends from now on.

        Raises `WaitTimedOut`; `NotFound` when the job ends without a further run.
        """
        return await self._run(wait_for(run_or_job_id, self._tenant_id, int(timeout_seconds * 1000)))

    async def _run(self, flow: Flow[T]) -> T:
        loop = asyncio.get_running_loop()
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Send):
                outcome = await loop.run_in_executor(self._threads, self._transport.send, step.call)
            else:
                await _pause(loop, step.length_ms)
                outcome = None


async def _pause(loop: asyncio.AbstractEventLoop, length_ms: int) -> None:
    over = loop.create_future()
    timer = loop.call_later(length_ms / 1000, _end, over)
    try:
        await over
    finally:
        timer.cancel()


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
