"""Coroutines share tasks only while they don't wait."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from tickwheel.adapters.handlers import coroutines
from tickwheel.adapters.handlers.coroutines import Coroutines

Ended = list[tuple[int, BaseException | None]]
LIMIT_S = 10
mark: ContextVar[str] = ContextVar("mark", default="none")


class Crowd:
    """Items 0, 1, ... each run `call(number)`; `tasks` tells by which task."""

    def __init__(self, call: Callable[[int], Coroutine[Any, Any, Any]]) -> None:
        self.ended: Ended = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._call = call
        self._coroutines = Coroutines[int](
            loop=asyncio.get_running_loop(), begin=self._begin, end=lambda *end: self.ended.append(end[:2])
        )

    def submit(self, count: int) -> None:
        for number in range(count):
            self._coroutines.submit(number)

    async def run(self, count: int) -> Ended:
        self.submit(count)
        async with asyncio.timeout(LIMIT_S):
            while len(self.ended) < count:
                await asyncio.sleep(0.001)
        return sorted(self.ended, key=lambda end: end[0])

    def _begin(self, number: int, task: "asyncio.Task[None]") -> Coroutine[Any, Any, Any]:
        self.tasks[number] = task
        return self._call(number)


async def at_once(number: int) -> None:
    """Never waits."""


async def in_a_while(number: int) -> None:
    await asyncio.sleep(0.001)


async def test_those_that_never_wait_cost_no_task_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coroutines, "TURN_S", LIMIT_S)
    crowd = Crowd(at_once)
    assert await crowd.run(1_000) == [(number, None) for number in range(1_000)]
    assert len(set(crowd.tasks.values())) == 1


async def test_one_that_waits_has_its_task_for_itself_from_then_on() -> None:
    crowd = Crowd(in_a_while)
    assert await crowd.run(1_000) == [(number, None) for number in range(1_000)]
    assert len(set(crowd.tasks.values())) == 1_000


async def test_those_that_wait_run_at_the_same_time() -> None:
    everybody = asyncio.Barrier(200)
    crowd = Crowd(lambda number: everybody.wait())
    assert [error for _, error in await crowd.run(200)] == [None] * 200


async def test_a_raised_error_is_the_end_of_its_own_coroutine_only() -> None:
    async def call(number: int) -> None:
        if number % 3 == 1:
            await asyncio.sleep(0)
        if number % 3:
            raise SystemExit(number)

    ended = await Crowd(call).run(99)
    assert [type(error) for _, error in ended] == [type(None), SystemExit, SystemExit] * 33


async def test_a_cancelled_task_takes_one_coroutine_with_it_and_it_may_clean_up() -> None:
    cleaned = []

    async def call(number: int) -> None:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.append(number)
            raise

    crowd = Crowd(call)
    crowd.submit(20)
    while len(crowd.tasks) < 20:
        await asyncio.sleep(0)
    crowd.tasks[7].cancel()
    while len(crowd.ended) < 20:
        await asyncio.sleep(0.01)
    assert cleaned == [7]
    assert sorted(number for number, error in crowd.ended if isinstance(error, asyncio.CancelledError)) == [7]


async def test_a_timeout_in_the_first_step_ends_what_it_is_around() -> None:
    async def call(number: int) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(LIMIT_S)

    assert {type(error) for _, error in await Crowd(call).run(10)} == {TimeoutError}


async def test_what_one_leaves_in_its_context_is_not_seen_by_the_next() -> None:
    seen = []

    async def call(number: int) -> None:
        seen.append(mark.get())
        mark.set(str(number))

    await Crowd(call).run(50)
    assert seen == ["none"] * 50


async def test_a_crowd_that_never_waits_lets_others_go_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coroutines, "TURN_S", 0.0)
    crowd = Crowd(at_once)
    crowd.submit(10)
    seen = []
    while len(crowd.ended) < 10:
        seen.append(len(crowd.ended))
        await asyncio.sleep(0)
    assert set(seen) == set(range(10))


async def test_one_that_is_left_out_ends_nowhere() -> None:
    ended: Ended = []
    few = Coroutines[int](
        loop=asyncio.get_running_loop(),
        begin=lambda number, task: None if number == 1 else at_once(number),
        end=lambda *end: ended.append(end[:2]),
    )
    for number in range(3):
        few.submit(number)
    for _ in range(20):
        await asyncio.sleep(0)
    assert ended == [(0, None), (2, None)]
