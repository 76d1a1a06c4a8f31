"""The example of the docs as real processes: floods of one run, kills at bad moments, and what Tickwheel sends."""

import os
import random
import re
import runpy
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest
from msgspec.structs import replace

from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.signing_key import parse_secret
from tickwheel.ports.executor import Work

from ..adapters.webhook.harness import Bench, loopback, make_work
from ..servers.waiting import wait_until
from .signing import BODY, OTHER_SECRET, SECRET, headers, run_id

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "receiver.py"
STALLING = Path(__file__).with_name("stalling_receiver.py")
ADDRESS = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
PATIENCE_S = 45
DELIVERIES = 50


class Told(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    replayed: bool


class ReceiverProcess:
    """A receiver on a free port, killed at the end. Its log goes to a file."""

    def __init__(self, folder: Path, name: str, *arguments: str | Path) -> None:
        self.database = folder / "bookings.db"
        log = folder / f"{name}.log"
        environment = os.environ | {"TICKWHEEL_WEBHOOK_SECRET": f"{OTHER_SECRET} {SECRET}"}
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *arguments], stdout=file, stderr=file, env=environment, cwd=folder
            )
        self.log = log
        self.port = 0

    def __enter__(self) -> Self:
        try:
            wait_until(self._has_started, PATIENCE_S, "the receiver says where it runs")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def _has_started(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        if found := ADDRESS.search(self.log.read_text()):
            self.port = int(found[1])
        return self.port > 0

    def deliver(self, number: int, token: int, body: bytes = BODY) -> Told:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            connection.request("POST", "/", body, headers(number, token, body=body, sent_s=int(time.time())))
            answer = connection.getresponse()
            return Told(answer.status, answer.read(), answer.getheader("idempotent-replayed") == "true")

    def booked(self) -> Counter[str]:
        with closing(sqlite3.connect(self.database)) as connection:
            return Counter(run for (run,) in connection.execute("SELECT run_id FROM bookings"))

    def has_booked(self, count: int) -> bool:
        return self.booked().total() >= count


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[ReceiverProcess]]:
    """Two receivers on one file."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(ReceiverProcess(tmp_path, f"r{number}", EXAMPLE, "bookings.db", "0"))
            for number in range(2)
        ]


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_a_run_that_comes_fifty_times_at_once_is_booked_once(two: list[ReceiverProcess], order: str) -> None:
    tokens = list(range(1, DELIVERIES + 1))
    if order == "falling":
        tokens.reverse()
    elif order == "mixed":
        random.shuffle(tokens)
    with ThreadPoolExecutor(DELIVERIES) as pool:
        told = list(pool.map(lambda token: two[token % 2].deliver(1, token), tokens))
    # None fails here, so whoever waited its turn finds the record, whatever its token.
    assert {(one.status, one.body) for one in told} == {(201, b"booked")}
    assert sum(not one.replayed for one in told) == 1
    assert two[0].booked() == {run_id(1): 1}


def test_runs_do_not_stand_in_for_one_another(two: list[ReceiverProcess]) -> None:
    sent = [(number, token) for number in range(1, 11) for token in range(1, 6)]
    random.shuffle(sent)
    with ThreadPoolExecutor(DELIVERIES) as pool:
        told = list(pool.map(lambda one: two[sum(one) % 2].deliver(*one), sent))
    assert {one.status for one in told} == {201}
    assert two[0].booked() == {run_id(number): 1 for number in range(1, 11)}


def test_what_is_refused_for_good_is_not_booked(two: list[ReceiverProcess]) -> None:
    assert two[0].deliver(1, 1, b'{"amount":-7}').status == 400
    assert two[1].deliver(1, 2, b'{"amount":"none"}').status == 400
    assert two[0].deliver(1, 1).status == 409, "the token of the failed one is kept"
    assert two[0].booked() == {}
    assert two[0].deliver(1, 3) == Told(201, b"booked", False)


@pytest.mark.parametrize("stage", ["effect", "answer"])
def test_a_receiver_killed_in_the_middle_books_once(tmp_path: Path, stage: str) -> None:
    marker = tmp_path / "marker"
    script = (STALLING, EXAMPLE, "bookings.db", stage, marker)
    with ReceiverProcess(tmp_path, "stalling", *script) as stalling, ThreadPoolExecutor(1) as pool:
        lost = pool.submit(stalling.deliver, 1, 5)
        wait_until(
            marker.exists, PATIENCE_S, f"the receiver is before its {'commit' if stage == 'effect' else stage}"
        )
        stalling.kill()
        with pytest.raises((OSError, HTTPException)):
            lost.result(PATIENCE_S)
        assert stalling.booked() == ({run_id(1): 1} if stage == "answer" else {})
    with ReceiverProcess(tmp_path, "next", EXAMPLE, "bookings.db", "0") as receiver:
        assert receiver.deliver(1, 6) == Told(201, b"booked", stage == "answer")
        assert receiver.deliver(1, 7) == Told(201, b"booked", True)
        assert receiver.booked() == {run_id(1): 1}


def test_receivers_killed_again_and_again_under_a_flood_book_once(tmp_path: Path) -> None:
    drawn = random.Random(7)
    with ExitStack() as stack:
        for life in range(3):
            receiver = stack.enter_context(ReceiverProcess(tmp_path, f"life{life}", EXAMPLE, "bookings.db", "0"))
            sent = [(number, life * 10 + drawn.randint(1, 9)) for number in range(1, 41)]
            with ThreadPoolExecutor(8) as pool:
                waiting = [pool.submit(receiver.deliver, number, token) for number, token in sent]
                enough = drawn.randint(5, 20)
                wait_until(partial(receiver.has_booked, enough), PATIENCE_S, "some are booked")
                receiver.kill()
                for one in waiting:
                    with suppress(OSError, HTTPException):
                        assert one.result(PATIENCE_S).status in (201, 409)
        with ReceiverProcess(tmp_path, "last", EXAMPLE, "bookings.db", "0") as last:
            assert {last.deliver(number, 99).status for number in range(1, 41)} == {201}
            assert last.booked() == {run_id(number): 1 for number in range(1, 41)}


async def test_attempts_of_tickwheel_itself_are_told_apart(two: list[ReceiverProcess]) -> None:
    def attempt(token: int, payload: bytes = BODY) -> Work:
        work = make_work(1, f"http://127.0.0.1:{two[token % 2].port}/", payload=payload)
        return replace(work, slot=token, fence=token)

    async with Bench(loopback(signing_keys=(parse_secret(SECRET),))) as bench:
        ends = [await bench.run(attempt(token)) for token in (3, 4, 2)]
        assert [(end.outcome_class, end.http_status) for end in ends] == [(OutcomeClass.SUCCESS, 201)] * 3
        refused = await bench.run(attempt(5, b'{"amount":-1}'))
        assert refused.outcome_class is OutcomeClass.SUCCESS, "what is done stays done, whatever comes later"
    assert two[0].booked().total() == 1


@pytest.mark.parametrize(
    ("body", "amount"),
    [
        (b'{"amount": 5}', 5),
        (b"{}", None),
        (b"[]", None),
        (b"null", None),
        (b'{"amount": "5"}', None),
        (b'{"amount": true}', None),
        (b'{"amount": 1e400}', None),
        (b"not JSON", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_payload_of_another_shape_is_told_from_a_right_one(body: bytes, amount: int | None) -> None:
    assert runpy.run_path(str(EXAMPLE))["amount_in"](body) == amount


def test_without_a_secret_it_says_what_it_needs(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TICKWHEEL_WEBHOOK_SECRET"}
    done = subprocess.run(
        [sys.executable, EXAMPLE, "b.db", "0"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("usage: receiver.py DATABASE PORT, with TICKWHEEL_WEBHOOK_SECRET")
