"""What becomes of attempts when the executor closes; the grace passes on a virtual clock."""

import asyncio

import pytest

from tickwheel.domain.outcome import OutcomeClass
from tickwheel.testing.idle_loop import until_idle

from .bench import Bench
from .factories import LIMIT_COUNT, LIMITED, Errand

GRACE_MS = 5_000


async def test_idle_executor_closes_at_once(bench: Bench) -> None:
    async with bench:
        await bench.aclose(GRACE_MS)  # the clock stands still: waiting for the grace would never end
        assert bench.reports == []


async def test_start_after_the_close_is_handed_back(bench: Bench) -> None:
    async with bench:
        await bench.aclose(0)
        bench.start(Errand.SUCCEED, 0)
        bench.start(Errand.WAIT, 1)
        assert bench.open_slots() == [0, 1]
        await bench.all_reported()
        assert bench.classes(0, 1) == [OutcomeClass.UNSTARTED] * 2
        assert bench.subject.begun_count() == 0


async def test_start_during_the_grace_is_handed_back(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0)
        await bench.begun(1)
        closing = asyncio.create_task(bench.aclose(GRACE_MS))
        await until_idle()
        bench.on_report = lambda slots: bench.subject.let_go()
        bench.start(Errand.SUCCEED, 1)
        await closing
        assert bench.classes(0, 1) == [OutcomeClass.SUCCESS, OutcomeClass.UNSTARTED]
        assert bench.subject.begun_count() == 1


async def test_what_ends_within_the_grace_counts_and_ends_the_wait(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0, 1)
        await bench.begun(2)
        closing = asyncio.create_task(bench.aclose(GRACE_MS))
        await until_idle()
        assert bench.open_slots() == [0, 1]
        bench.subject.let_go()
        await closing  # the clock stands still: the ends alone finish the wait
        assert bench.open_slots() == []
        assert bench.classes(0, 1) == [OutcomeClass.SUCCESS] * 2


async def test_what_goes_on_after_the_grace_is_handed_back(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0, 1)
        await bench.begun(2)
        closing = asyncio.create_task(bench.aclose(GRACE_MS))
        await bench.clock.advance(GRACE_MS - 1)
        assert (closing.done(), bench.open_slots()) == (False, [0, 1])
        await bench.clock.advance(1)
        await closing
        assert bench.open_slots() == []
        assert bench.classes(0, 1) == [OutcomeClass.UNSTARTED] * 2


async def test_end_that_is_not_reported_yet_is_told_before_the_close_returns(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.IMPOSSIBLE, 0)
        await bench.aclose(0)
        assert bench.open_slots() == []
        assert bench.classes(0) == [OutcomeClass.PERMANENT]


@pytest.mark.parametrize("bench", LIMITED, indirect=True)
async def test_what_waits_in_line_is_handed_back_before_the_grace_is_over(bench: Bench) -> None:
    async with bench:
        in_line = range(LIMIT_COUNT, LIMIT_COUNT + 10)
        bench.start(Errand.WAIT, *range(LIMIT_COUNT))
        await bench.begun(LIMIT_COUNT)
        bench.start(Errand.SUCCEED, *in_line)
        closing = asyncio.create_task(bench.aclose(GRACE_MS))
        await until_idle()
        assert (closing.done(), bench.open_slots()) == (False, list(range(LIMIT_COUNT)))
        assert set(bench.classes(*in_line)) == {OutcomeClass.UNSTARTED}
        bench.subject.let_go()
        await closing
        assert set(bench.classes(*range(LIMIT_COUNT))) == {OutcomeClass.SUCCESS}
        assert bench.subject.begun_count() == LIMIT_COUNT


async def test_started_and_closed_in_one_breath_all_is_reported(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, *range(20))
        await bench.aclose(0)
        assert bench.open_slots() == []
        assert set(bench.classes(*range(20))) == {OutcomeClass.UNSTARTED}
