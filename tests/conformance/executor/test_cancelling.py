"""Cancelled attempts end early, others do not notice."""

from collections.abc import Sequence

from tickwheel.domain.outcome import OutcomeClass
from tickwheel.testing.idle_loop import until_idle

from .bench import Bench
from .factories import Errand


async def test_begun_attempt_ends_when_it_is_cancelled(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0)
        await bench.begun(1)
        bench.cancel(0)
        await bench.all_reported()  # nobody lets it go: only the cancel can end it
        assert bench.classes(0) == [bench.subject.cancelled_as]


async def test_attempt_cancelled_at_once_is_reported_once(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0)
        bench.cancel(0)
        bench.cancel(0, 0)
        assert bench.open_slots() == [0]
        await bench.all_reported()
        assert bench.classes(0)[0] in {OutcomeClass.CANCELLED, bench.subject.cancelled_as}


async def test_unknown_slots_are_ignored(bench: Bench) -> None:
    async with bench:
        bench.cancel(5, 1_000_000)
        bench.start(Errand.WAIT, 0)
        await bench.begun(1)
        bench.cancel(5, 0, 6)
        await bench.all_reported()
        assert bench.reports == [[0]]


async def test_cancel_after_the_report_changes_nothing(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.FAIL_FOR_GOOD, 0)
        await bench.all_reported()
        bench.cancel(0)
        await until_idle()
        assert bench.reports == [[0]]
        assert bench.classes(0) == [OutcomeClass.PERMANENT]


async def test_end_that_is_not_reported_yet_outlives_a_cancel(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.IMPOSSIBLE, 0)
        bench.cancel(0)
        await bench.all_reported()
        assert bench.classes(0)[0] in {OutcomeClass.PERMANENT, OutcomeClass.CANCELLED}


async def test_cancel_spares_the_others(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0, 1, 2)
        await bench.begun(3)
        bench.cancel(1)
        bench.on_report = lambda slots: bench.subject.let_go()
        await bench.all_reported()
        assert bench.reports[0] == [1]
        assert bench.classes(0, 2) == [OutcomeClass.SUCCESS] * 2


async def test_slot_of_a_cancelled_attempt_is_free_after_its_report(bench: Bench) -> None:
    async with bench:

        def again(slots: Sequence[int]) -> None:
            bench.on_report = lambda slots: None
            bench.start(Errand.FAIL_FOR_GOOD, *slots)

        bench.start(Errand.WAIT, 0)
        await bench.begun(1)
        bench.on_report = again
        bench.cancel(0)
        await bench.all_reported()
        assert bench.reports == [[0], [0]]
        assert bench.classes(0) == [OutcomeClass.PERMANENT]


async def test_others_may_be_cancelled_from_inside_a_report(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, 0, 1, 2)
        await bench.begun(3)
        bench.on_report = lambda slots: bench.cancel(0, 1, 2)
        bench.start(Errand.IMPOSSIBLE, 3)
        await bench.all_reported()
        assert bench.classes(0, 1, 2) == [bench.subject.cancelled_as] * 3
