"""Many attempts at once: limits, fairness, cancel, shutdown, descriptors."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import uvloop

from tickwheel.adapters.curl import curl_loop
from tickwheel.adapters.curl.poller import SelectorPoller
from tickwheel.adapters.webhook.hosts import Line, Turnstile
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .harness import Bench, Run, error_of, loopback, make_work, run_id, wait_until
from .sink import running_sink

RUNNERS: list[Run] = [asyncio.run, uvloop.run]


@pytest.mark.parametrize("run", RUNNERS)
def test_a_thousand_attempts_each_reported_once(run: Run) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            bench.executor.start([make_work(slot, sink.url("/status/204")) for slot in range(1000)])
            outcomes = await bench.wait_for(*range(1000))
            assert {outcome.outcome_class for outcome in outcomes} == {OutcomeClass.SUCCESS}
            assert sorted(request.run_id for request in sink.received) == [run_id(n) for n in range(1000)]
            assert sink.open_count_max <= 64
            assert len(bench.report_sizes) < 1000  # reported in batches

    run(scenario())


def test_platforms_without_epoll_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curl_loop, "make_poller", SelectorPoller)

    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            paths = ["/status/200", "/close", "/huge?status=200", "/never"] * 10
            works = [make_work(n, sink.url(path), timeout_ms=500) for n, path in enumerate(paths)]
            bench.executor.start(works)
            await bench.wait_for(*range(len(paths)))

    asyncio.run(scenario())


def test_host_at_its_limit_holds_up_no_other_host() -> None:
    async def scenario() -> None:
        async with running_sink() as slow, running_sink() as fast, Bench(loopback(host_limit_count=3)) as bench:
            bench.executor.start([make_work(slot, slow.url("/gate")) for slot in range(10)])
            outcome = await bench.run(make_work(100, fast.url("/status/200")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS
            await wait_until(lambda: slow.open_count == 3, "the limit to be used")
            slow.gate.set()
            await bench.wait_for(*range(10))
            assert slow.open_count_max == 3

    asyncio.run(scenario())


def test_total_limit_holds_over_all_hosts() -> None:
    async def scenario() -> None:
        settings = loopback(connection_limit_count=4)
        async with running_sink() as one, running_sink() as two, Bench(settings) as bench:
            bench.executor.start([make_work(n, (one, two)[n % 2].url("/gate")) for n in range(12)])
            await wait_until(lambda: one.open_count + two.open_count == 4, "the limit to be used")
            assert (one.open_count, two.open_count) == (2, 2)
            one.gate.set()
            two.gate.set()
            await bench.wait_for(*range(12))
            assert len(one.received) + len(two.received) == 12

    asyncio.run(scenario())


def test_work_started_from_a_report_is_taken() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            original = bench.report

            def report(slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
                original(slots, outcomes)
                if len(bench.outcomes) < 50:
                    bench.executor.start([make_work(len(bench.outcomes), sink.url("/status/200"))])

            bench.executor._report = report
            bench.executor.start([make_work(0, sink.url("/status/200"))])
            await bench.wait_for(*range(50))

    asyncio.run(scenario())


@pytest.mark.parametrize("run", RUNNERS)
def test_cancel_reaches_waiting_resolving_and_sent_attempts(run: Run) -> None:
    async def scenario() -> None:
        settings = loopback(host_limit_count=1)
        async with running_sink() as sink, running_sink() as other, Bench(settings) as bench:
            bench.executor.start(
                [
                    make_work(1, sink.url("/never")),  # sent
                    make_work(2, sink.url("/status/200")),  # waits for its host
                    make_work(3, other.url("/status/200", "localhost")),  # is being resolved
                ]
            )
            bench.executor.cancel([3])
            await sink.arrived.wait()
            bench.executor.cancel([2, 1, 99])
            assert not bench.outcomes.keys() & {1, 2}  # never reported from inside the call
            outcomes = await bench.wait_for(1, 2, 3)
            assert {outcome.outcome_class for outcome in outcomes} == {OutcomeClass.CANCELLED}
            after = await bench.run(make_work(4, sink.url("/status/200")))
            assert after.outcome_class is OutcomeClass.SUCCESS
            assert [request.run_id for request in sink.received] == [run_id(1), run_id(4)]
            assert not other.received
            bench.executor.cancel([1, 2, 3, 4])
            await asyncio.sleep(0.05)
            assert len(bench.outcomes) == 4

    run(scenario())


def test_slot_may_be_used_again_after_a_cancel() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            bench.executor.start([make_work(1, sink.url("/never"))])
            await sink.arrived.wait()
            bench.executor.cancel([1])
            await bench.wait_for(1)
            bench.outcomes.clear()
            outcome = await bench.run(make_work(1, sink.url("/status/200")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS

    asyncio.run(scenario())


@pytest.mark.pitfall(79)
def test_close_waits_for_the_grace_time_and_no_longer() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            bench = Bench(loopback(host_limit_count=2))
            bench.executor.start(
                [
                    make_work(1, sink.url("/gate")),
                    make_work(2, sink.url("/never")),
                    make_work(3, sink.url("/gate")),
                ]
            )
            await wait_until(lambda: sink.open_count == 2, "two requests to arrive")
            loop = asyncio.get_running_loop()
            began = loop.time()
            loop.call_later(0.05, sink.gate.set)
            await bench.executor.aclose(1_000)
            assert 0.95 < loop.time() - began < 20
            one, two, three = await bench.wait_for(1, 2, 3)
            assert one.outcome_class is OutcomeClass.SUCCESS
            assert two.outcome_class is OutcomeClass.UNSTARTED
            assert error_of(two).startswith("interrupted")
            assert three.outcome_class is OutcomeClass.UNSTARTED
            assert error_of(three).startswith("not started")
            assert len(sink.received) == 2
            late = await bench.run(make_work(4, sink.url("/gate")))
            assert late.outcome_class is OutcomeClass.UNSTARTED

    asyncio.run(scenario())


def test_close_ends_as_soon_as_all_is_done() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            bench = Bench()
            bench.executor.start([make_work(1, sink.url("/gate"))])
            await sink.arrived.wait()
            loop = asyncio.get_running_loop()
            loop.call_later(0.02, sink.gate.set)
            began = loop.time()
            await bench.executor.aclose(30_000)
            assert loop.time() - began < 20
            assert bench.outcomes[1].outcome_class is OutcomeClass.SUCCESS
            await bench.executor.aclose(0)

    asyncio.run(scenario())


@pytest.mark.pitfall(80)
def test_cancel_works_while_closing() -> None:
    async def scenario() -> None:
        async with running_sink() as sink:
            bench = Bench()
            bench.executor.start([make_work(1, sink.url("/never"))])
            await sink.arrived.wait()
            closing = asyncio.ensure_future(bench.executor.aclose(50_000))
            await asyncio.sleep(0.02)
            bench.executor.cancel([1])
            await asyncio.wait_for(closing, 25)
            assert bench.outcomes[1].outcome_class is OutcomeClass.CANCELLED

    asyncio.run(scenario())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_is_left_open() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            paths = ["/status/200", "/close", "/garbage", "/huge?status=200"] * 5
            bench.executor.start([make_work(slot, sink.url(path)) for slot, path in enumerate(paths)])
            await bench.wait_for(*range(len(paths)))

    asyncio.run(scenario())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        asyncio.run(scenario())
    assert len(os.listdir("/proc/self/fd")) == before


def test_higher_lane_goes_first_and_the_lowest_still_moves() -> None:
    line: Line[str] = Line()
    for number in range(40):
        line.put(0, f"critical-{number}")
    for number in range(4):
        line.put(3, f"low-{number}")
    order = [line.take() for _ in range(44)]
    assert order[0] == "critical-0"
    assert [order.index(f"low-{number}") + 1 for number in range(4)] == [8, 16, 24, 32]
    with pytest.raises(IndexError):
        line.take()


def test_turnstile_forgets_idle_hosts() -> None:
    turnstile: Turnstile[int] = Turnstile(host_limit_count=1, total_limit_count=2)
    hosts = {number: turnstile.enter(f"host-{number % 5}", 2, number) for number in range(10)}
    turnstile.withdraw(hosts[9], 2, 9)
    admitted = []
    while (item := turnstile.admit()) is not None:
        admitted.append(item)
        turnstile.leave(hosts[item])
    assert sorted(admitted) == list(range(9))
    assert not turnstile._hosts
