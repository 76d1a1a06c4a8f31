"""Taking back what an executor has not begun."""

import asyncio
import threading
from collections.abc import Sequence

from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.executor import Work


async def test_only_what_has_not_begun_is_taken_back_and_it_never_runs() -> None:
    handlers, begun, go_on = Handlers(), list[int](), threading.Event()
    first_runs = threading.Event()

    @handlers.handler("hang")
    def hang(payload: int) -> None:
        begun.append(payload)
        first_runs.set()
        go_on.wait(30)

    reports: list[tuple[int, OutcomeClass]] = []
    all_told = asyncio.Event()

    def report(slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        reports.extend((slot, one.outcome_class) for slot, one in zip(slots, outcomes, strict=True))
        if len(reports) == 3:
            all_told.set()

    executor = HandlerExecutor(handlers=handlers, report=report, clock=SystemClock(), thread_limit=1)
    target = Target(type=TargetType.HANDLER, name="hang")
    executor.start([Work(n, bytes(16), n, n, 1, 4, 2, "default", target, str(n).encode(), None) for n in range(3)])
    await asyncio.to_thread(first_runs.wait, 30)
    assert executor.withdraw([0, 1, 2, 9]) == [1, 2]
    go_on.set()
    await all_told.wait()
    assert sorted(reports) == [
        (0, OutcomeClass.SUCCESS),
        (1, OutcomeClass.UNSTARTED),
        (2, OutcomeClass.UNSTARTED),
    ]
    await executor.aclose(1_000)
    assert begun == [0]
