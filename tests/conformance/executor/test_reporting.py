"""Every start has its one report, in batches, and never from inside a call of the caller."""

from collections.abc import Sequence

import pytest

from tickwheel.domain.outcome import OutcomeClass

from .bench import Bench
from .factories import LIMIT_COUNT, Errand


@pytest.mark.parametrize(
    ("errand", "wanted"),
    [
        (Errand.SUCCEED, OutcomeClass.SUCCESS),
        (Errand.FAIL_FOR_NOW, OutcomeClass.RETRYABLE),
        (Errand.FAIL_FOR_GOOD, OutcomeClass.PERMANENT),
        (Errand.IMPOSSIBLE, OutcomeClass.PERMANENT),
    ],
)
async def test_kinds_of_ends_are_told_apart(bench: Bench, errand: Errand, wanted: OutcomeClass) -> None:
    async with bench:
        bench.start(errand, 7)
        assert bench.open_slots() == [7]  # whatever comes of it, it is not told from inside start
        await bench.all_reported()
        assert bench.classes(7) == [wanted]


async def test_ends_of_one_batch_stay_with_their_slots(bench: Bench) -> None:
    async with bench:
        wanted = {
            Errand.SUCCEED: OutcomeClass.SUCCESS,
            Errand.FAIL_FOR_NOW: OutcomeClass.RETRYABLE,
            Errand.FAIL_FOR_GOOD: OutcomeClass.PERMANENT,
        }
        errands = list(wanted) * 10
        for slot, errand in enumerate(errands):
            bench.start(errand, slot)
        await bench.all_reported()
        assert bench.classes(*range(30)) == [wanted[errand] for errand in errands]


async def test_many_attempts_at_once_all_run_and_are_reported(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.SUCCEED, *range(300))
        await bench.all_reported()
        assert set(bench.classes(*range(300))) == {OutcomeClass.SUCCESS}
        assert bench.subject.begun_count() == 300


async def test_what_ends_together_is_reported_together(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.IMPOSSIBLE, *range(300))
        await bench.all_reported()
        assert [sorted(slots) for slots in bench.reports] == [list(range(300))]


async def test_impossible_attempt_takes_no_other_along(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.SUCCEED, 0)
        bench.start(Errand.IMPOSSIBLE, 1)
        bench.start(Errand.SUCCEED, 2)
        await bench.all_reported()
        assert bench.classes(0, 1, 2) == [OutcomeClass.SUCCESS, OutcomeClass.PERMANENT, OutcomeClass.SUCCESS]


@pytest.mark.parametrize("errand", [Errand.SUCCEED, Errand.IMPOSSIBLE])
async def test_work_may_be_started_from_inside_a_report(bench: Bench, errand: Errand) -> None:
    async with bench:
        left = list(range(1, 30))

        def go_on(slots: Sequence[int]) -> None:
            for _ in slots:
                if left:
                    bench.start(errand, left.pop())

        bench.on_report = go_on
        bench.start(errand, 0)
        await bench.all_reported()
        assert sorted(bench.outcomes) == list(range(30))


async def test_slot_is_free_again_from_inside_its_report(bench: Bench) -> None:
    async with bench:
        left = 20

        def again(slots: Sequence[int]) -> None:
            nonlocal left
            if left:
                left -= 1
                bench.start(Errand.SUCCEED, *slots)

        bench.on_report = again
        bench.start(Errand.FAIL_FOR_NOW, 3)
        await bench.all_reported()
        assert bench.reports == [[3]] * 21
        assert bench.classes(3) == [OutcomeClass.SUCCESS]


async def test_attempts_that_wait_do_not_hold_up_the_reports_of_others(bench: Bench) -> None:
    async with bench:
        bench.start(Errand.WAIT, *range(LIMIT_COUNT - 1))
        await bench.begun(LIMIT_COUNT - 1)
        bench.on_report = lambda slots: bench.subject.let_go()
        bench.start(Errand.SUCCEED, 50)
        await bench.all_reported()
        assert bench.reports[0] == [50]
