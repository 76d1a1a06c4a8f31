"""Hands results from the database threads back to the event loops that wait for them."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """A result or an error for one waiting future."""

    future: "asyncio.Future[Any]"
    value: Any
    error: BaseException | None


def deliver(answers: Iterable[Answer]) -> None:
    """Resolve the futures, with one call into each event loop. Answers to a closed loop are dropped."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer.future.get_loop(), []).append(answer)
    for loop, part in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, part)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _resolve(answers: list[Answer]) -> None:
    for future, value, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
