"""Many deliveries of a few runs at the same time, with rising and falling tokens, some of whose effects fail."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel.receiver import RefusedDelivery

from .places import BlockingPlace
from .signing import delivery, run_id

THREADS = 12
RUNS = 4
ROUNDS = 15


@pytest.mark.parametrize("seed", range(2))
def test_every_effect_happens_once(shared_place: BlockingPlace, seed: int) -> None:
    made: list[int] = []
    start = threading.Barrier(THREADS)

    def deliver(thread: int) -> None:
        drawn = random.Random(f"{seed}.{thread}")
        start.wait(30)
        for step in range(ROUNDS):
            number = drawn.randint(1, RUNS)
            token = step + 1 if thread % 2 else ROUNDS - step  # rising here, falling there
            try:
                with (
                    shared_place.connect() as connection,
                    shared_place.guard.once(connection, delivery(number, token)) as first,
                ):
                    if first:
                        shared_place.make_now(first.connection, run_id(number))
                        if drawn.random() < 0.5:
                            raise ZeroDivisionError
                        made.append(number)
            except (ZeroDivisionError, RefusedDelivery):
                continue

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(deliver, range(THREADS)))
    for number in range(1, RUNS + 1):
        while not made.count(number):
            with (
                shared_place.connect() as connection,
                shared_place.guard.once(connection, delivery(number, 99)) as first,
            ):
                if first:
                    shared_place.make_now(first.connection, run_id(number))
                    made.append(number)
        assert (shared_place.effects(run_id(number)), made.count(number)) == (1, 1)
