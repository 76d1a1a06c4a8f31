"""The scheduler that users test their jobs with."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwheel import Cancel, Fail, HandlerContext, Handlers, InvalidRequest, Retry, Snooze
from tickwheel.testing.workbench import BlockingWorkbench, HandlerStillRuns, Workbench

handlers = Handlers()


@handlers.handler("add")
async def add(payload: dict[str, int]) -> int:
    await asyncio.sleep(0.005)
    return sum(payload.values())


@handlers.handler("plain")
def plain(payload: Any, ctx: HandlerContext) -> str:
    time.sleep(0.005)
    return f"{ctx.lane} {ctx.attempt}"


@handlers.handler("end")
def end(payload: str, ctx: HandlerContext) -> None:
    if ctx.attempt > 1:
        return
    raise {"fail": Fail("no"), "cancel": Cancel("no"), "retry": Retry(after=60), "snooze": Snooze(60)}[payload]


@handlers.handler("fails")
def fails() -> None:
    raise RuntimeError("always")


async def test_time_passes_and_handlers_run_at_their_instants() -> None:
    bench = Workbench(handlers=handlers, start=datetime(2026, 10, 25, tzinfo=UTC))
    job_id = await bench.schedule(handler="add", payload={"a": 1, "b": 2}, delay_seconds=90)
    await bench.advance(seconds=89)
    assert bench.runs() == []
    assert bench.next_run(job_id) == datetime(2026, 10, 25, 0, 1, 30, tzinfo=UTC)
    await bench.advance(seconds=1)
    [run] = bench.runs(job_id)
    assert (run.status, run.result, run.started_at) == (
        "SUCCEEDED",
        3,
        datetime(2026, 10, 25, 0, 1, 30, tzinfo=UTC),
    )
    assert bench.next_run(job_id) is None
    await bench.aclose()


async def test_cron_jobs_of_a_zone_keep_its_days() -> None:
    bench = Workbench(handlers=handlers, start=datetime(2026, 10, 24, 12, tzinfo=UTC))
    await bench.schedule(
        handler="plain", cron_expression="0 2 * * *", timezone="Europe/Berlin", job_name="nightly", priority="LOW"
    )
    await bench.advance_to(datetime(2026, 10, 27, tzinfo=UTC))
    assert [run.scheduled_at.hour for run in bench.runs("nightly")] == [0, 1]
    assert bench.results("nightly") == ["LOW 1"] * 2
    await bench.aclose()


@pytest.mark.parametrize(
    ("ending", "status", "attempt"),
    [("fail", "FAILED", 1), ("cancel", "CANCELLED", 1), ("retry", "SUCCEEDED", 2), ("snooze", "SCHEDULED", 0)],
)
async def test_endings_of_handlers_are_the_runs(ending: str, status: str, attempt: int) -> None:
    bench = Workbench(handlers=handlers)
    await bench.schedule(handler="end", payload=ending)
    await bench.advance(minutes=1, seconds=30)
    [run] = bench.runs("end")
    assert (run.status, run.attempt) == (status, attempt)
    assert len(bench.dead_letters()) == (status == "FAILED")
    await bench.aclose()


async def test_retries_wait_and_end_in_the_dead_letters() -> None:
    bench = Workbench(handlers=handlers)
    await bench.schedule(handler="fails", retry_policy={"max_retries": 2, "initial_interval_sec": 10})
    [run] = bench.runs()
    assert (run.status, run.attempt) == ("SCHEDULED", 1)
    await bench.advance(hours=1)
    [run] = bench.dead_letters("fails")
    assert (run.attempt, run.errors) == (3, ("RuntimeError: always",) * 3)
    await bench.aclose()


async def test_jobs_can_be_held_and_ended() -> None:
    bench = Workbench(handlers=handlers)
    job_id = await bench.schedule(handler="plain", cron_expression="* * * * *")
    await bench.advance(minutes=2)
    await bench.pause(job_id)
    await bench.advance(minutes=10)
    assert [run.status for run in bench.runs()] == ["SUCCEEDED"] * 2
    await bench.resume(job_id)
    await bench.advance(minutes=2)
    await bench.cancel(job_id)
    count = len(bench.runs())
    assert count > 2
    await bench.advance(minutes=10)
    assert len(bench.runs()) == count
    await bench.aclose()


async def test_what_does_not_overlap_does_not_hold_time_up() -> None:
    bench = Workbench(handlers=handlers)
    for _ in range(3):
        await bench.schedule(endpoint="https://example.com/hook")
    await bench.advance(minutes=5)
    assert [run.status for run in bench.runs()] == ["SUCCEEDED"] * 3
    await bench.aclose()


async def test_bad_requests_are_refused_as_the_api_does() -> None:
    bench = Workbench(handlers=handlers)
    with pytest.raises(InvalidRequest, match="cron_expression"):
        await bench.schedule(handler="plain", cron_expression="61 * * * *")
    with pytest.raises(LookupError, match="no handler is named 'absent'"):
        await bench.schedule(handler="absent")
    with pytest.raises(ValueError, match="backwards"):
        await bench.advance(seconds=-1)
    with pytest.raises(ValueError, match="time zone"):
        await bench.advance_to(datetime(2030, 1, 1))
    await bench.aclose()


async def test_handler_that_never_ends_fails_the_test() -> None:
    never = Handlers()

    @never.handler("never")
    async def waits() -> None:
        await asyncio.sleep(3600)

    bench = Workbench(handlers=never, patience_seconds=0.05)
    with pytest.raises(HandlerStillRuns, match=r"never \(run_"):
        await bench.schedule(handler="never")
    await bench.aclose()


def test_plain_tests_need_no_loop() -> None:
    bench = BlockingWorkbench(handlers=handlers)
    assert bench.run("add", {"a": 20, "b": 22}).result == 42
    job_id = bench.schedule(handler="plain", cron_expression="0 * * * *")
    before = bench.now
    bench.advance(timedelta(hours=3))
    assert bench.now - before == timedelta(hours=3)
    assert len(bench.results("plain")) == 3
    assert bench.next_run(job_id) is not None
    bench.close()
