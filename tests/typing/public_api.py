"""Uses of the public names as a type checker must see them. Checked by `make types`, never run.

Wrong uses are marked, and a mark that hides nothing fails the check.
"""

from datetime import UTC, datetime, timedelta
from typing import assert_type

from tickwheel import (
    AsyncClient,
    BatchResult,
    Cancel,
    Client,
    CreatedJob,
    Fail,
    HandlerContext,
    Handlers,
    Job,
    JobFields,
    JobPage,
    NotFound,
    Preview,
    RefusedJob,
    Retry,
    Run,
    RunPage,
    Snooze,
    TickwheelError,
    TriggeredRun,
    Worker,
    handler,
)
from tickwheel.transactional import Enqueued, enqueue, enqueue_async


@handler("plain")
def plain(payload: dict[str, str]) -> int:
    return len(payload)


@handler("with_context")
async def with_context(payload: object, ctx: HandlerContext) -> None:
    assert_type(ctx.run_id, str)
    assert_type(ctx.fencing_token, int)
    assert_type(ctx.scheduled_at, datetime)
    assert_type(ctx.cancelled, bool)
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.lane, str)
    assert_type(await ctx.heartbeat(progress=0.4, note="nearly half"), None)
    raise Snooze(5)


assert_type(plain({}), int)
own = Handlers()


@own.handler("mine")
def mine() -> None:
    raise Retry("busy", after_seconds=3) if own.names else Fail("no")


@own.handler("apart", run_in="process")
def apart(payload: dict[str, int], ctx: HandlerContext) -> int:
    ctx.heartbeat(0.5)
    raise Cancel("gone") if payload else Retry(after=timedelta(minutes=5))


own.handler("nowhere", run_in="cloud")  # type: ignore[arg-type]  # no such place


def blocking(client: Client) -> None:
    assert_type(client.schedule(handler="plain", payload={"a": 1}, delay_seconds=5), CreatedJob)
    client.schedule(endpoint="https://example.com", execute_at=datetime.now(UTC), tags=["a"])
    client.schedule(handler="x", delay_seconds=timedelta(hours=1), retry_policy={"max_retries": 5})
    client.schedule(target={"endpoint": "https://example.com", "method": "PUT"}, cron_expression="@daily")
    client.schedule(handler="x", priority="URGENT")  # type: ignore[arg-type]  # no such lane
    client.schedule(handler="x", colour="red")  # type: ignore[call-arg]  # no such field
    client.schedule(handler="x", retry_policy={"retries": 5})  # type: ignore[typeddict-unknown-key]  # no such field
    jobs: list[JobFields] = [{"handler": "x"}]
    result = client.schedule_many(jobs)
    assert_type(result, BatchResult)
    assert_type(result.created, tuple[CreatedJob, ...])
    assert_type(result.refused, tuple[tuple[int, RefusedJob], ...])
    assert_type(client.get("job_x"), Job)
    assert_type(client.list(status="FAILED", limit=5), JobPage)
    assert_type(client.list().jobs, tuple[Job, ...])
    assert_type(client.list_runs("job_x"), RunPage)
    assert_type(client.pause("job_x"), Job)
    assert_type(client.resume("job_x"), Job)
    assert_type(client.edit("job_x", if_version=1, priority="LOW"), Job)
    client.edit("job_x", tenant_id="other")  # type: ignore[call-arg]  # a job stays where it is
    assert_type(client.trigger("job_x"), TriggeredRun)
    assert_type(client.wait_for("job_x", timeout_seconds=5), Run)
    assert_type(client.preview("@daily", timezone="UTC", count=1), Preview)
    assert_type(client.get("job_x").next_run_time_iso, datetime | None)
    with Client("http://127.0.0.1:8080", token="t", tenant_id="acme", timeout_seconds=1) as inner:
        assert_type(inner, Client)
    error: TickwheelError = NotFound("x")
    assert_type(error.code, str)


async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.schedule(handler="plain"), CreatedJob)
    assert_type(await client.wait_for("job_x"), Run)
    assert_type(await client.list(), JobPage)
    async with AsyncClient(connections=2) as inner:
        assert_type(inner, AsyncClient)


async def in_a_transaction(connection: object) -> None:
    assert_type(enqueue(connection, handler="plain", payload={"a": 1}), Enqueued)
    assert_type(await enqueue_async(connection, cron_expression="0 3 * * *", handler="plain"), Enqueued)
    enqueue(connection, handler="plain", colour="red")  # type: ignore[call-arg]  # no such field


async def working() -> None:
    Worker(server="http://a", token="t", app="app:app", concurrency=50).run()
    async with Worker(server=["http://a", "http://b"], handlers=own, concurrency=(5, 200), prefetch=0) as worker:
        assert_type(worker.busy, int)
    await Worker(store="postgresql://h/d", queue="redis://h", webhooks=True).run_async()
    Worker(url="http://a")  # type: ignore[call-arg]  # it is called server
