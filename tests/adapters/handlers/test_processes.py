"""Handlers in processes of their own: they may die, and nothing else does."""

import asyncio
import itertools
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tickwheel.adapters.handlers import memory_limit
from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote
from tickwheel.ports.executor import Work

from .process_handlers import handlers

PATIENCE_S = 60


class Desk:
    """An executor with two processes."""

    def __init__(self) -> None:
        self.said: list[ProgressNote] = []
        self.outcomes: dict[int, Outcome] = {}
        self._news = asyncio.Event()
        self.executor = HandlerExecutor(
            handlers=handlers,
            report=self._report,
            clock=SystemClock(),
            thread_limit=1,
            progress=lambda slot, note: self.said.append(note),
            process_limit=2,
        )

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        for slot, outcome in zip(slots, outcomes, strict=True):
            assert slot not in self.outcomes, "reported twice"
            self.outcomes[slot] = outcome
        self._news.set()

    def start(self, name: str, payload: object = None, *, slot: int = 0, timeout_ms: int = 0) -> None:
        target = Target(type=TargetType.HANDLER, name=name, timeout_ms=timeout_ms)
        text = b"" if payload is None else msgspec.json.encode(payload)
        self.executor.start([Work(slot, b"j" * 16, 1_790_000_000_123, 7, 1, 4, 2, "t", target, text, None)])

    async def outcome(self, slot: int = 0) -> Outcome:
        async with asyncio.timeout(PATIENCE_S):
            while slot not in self.outcomes:
                self._news.clear()
                await self._news.wait()
        return self.outcomes.pop(slot)

    async def run(self, name: str, payload: object = None, timeout_ms: int = 0) -> Outcome:
        self.start(name, payload, timeout_ms=timeout_ms)
        return await self.outcome()

    async def __aenter__(self) -> "Desk":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.executor.aclose(0)

    async def until_busy(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.executor._processes._busy:
                await asyncio.sleep(0.01)


async def test_functions_get_their_payload_and_give_their_result() -> None:
    async with Desk() as desk:
        outcome = await desk.run("add", {"a": 1, "b": 2}, timeout_ms=30_000)
        assert outcome.outcome_class is OutcomeClass.SUCCESS
        first = msgspec.json.decode(outcome.result or b"")
        assert first["sum"] == 3
        assert first["pid"] != os.getpid()
        assert first["run"].startswith("run_")
        assert first["deadline"] > 1_700_000_000_000
        again = msgspec.json.decode((await desk.run("add", {"a": 2, "b": 2})).result or b"")
        assert (again["sum"], again["pid"]) == (4, first["pid"])
        assert (await desk.run("add_async", {"a": 20, "b": 22})).result == b"42"


async def test_payload_that_does_not_fit_fails_for_good() -> None:
    async with Desk() as desk:
        outcome = await desk.run("add", {"a": 1, "b": "two"})
        assert outcome.outcome_class is OutcomeClass.PERMANENT
        assert outcome.error == "the payload doesn't fit Numbers: Expected `int`, got `str` - at `$.b`"


async def test_heartbeats_are_heard() -> None:
    async with Desk() as desk:
        assert await desk.run("talk") == OK
        assert desk.said == [ProgressNote(0.5, "half"), ProgressNote(1.0, "half")]


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [("x", OutcomeClass.PERMANENT), ("cancel", OutcomeClass.CANCELLED), ("exit", OutcomeClass.RETRYABLE)],
)
async def test_what_is_raised_becomes_the_outcome(payload: str, wanted: OutcomeClass) -> None:
    async with Desk() as desk:
        assert (await desk.run("fail", payload)).outcome_class is wanted


@pytest.mark.parametrize(
    ("name", "payload", "cause"),
    [
        ("die", "SIGKILL", "the handler's process was killed by SIGKILL"),
        ("die", "SIGSEGV", "the handler's process was killed by SIGSEGV"),
        ("leave", None, "the handler's process ended with status 3 in the middle of it"),
        ("hoard", None, "out of memory (MemoryError: )"),
    ],
)
async def test_death_of_the_process_is_a_lost_worker_with_its_cause(
    name: str, payload: str | None, cause: str
) -> None:
    async with Desk() as desk:
        desk.start("add", {"a": 1, "b": 1}, slot=1)
        outcome = await desk.run(name, payload)
        assert (outcome.outcome_class, outcome.error) == (OutcomeClass.LOST, cause)
        assert (await desk.outcome(1)).outcome_class is OutcomeClass.SUCCESS
        assert (await desk.run("add_async", {"a": 1, "b": 1})).result == b"2"


@pytest.mark.parametrize(
    "said",
    [b"\xff\xff\xff\xff", b"\x00\x10\x00\x01", b"\x00\x00\x00\x01x", b"\x00\x00\x10\x00" + b"\x91" * 4_096],
    ids=["4 GB", "a byte too much", "nonsense", "nests too deeply"],
)
async def test_a_process_that_says_nonsense_is_killed(said: bytes) -> None:
    async with Desk() as desk:
        outcome = await desk.run("scribble", list(said))
        assert outcome.outcome_class is OutcomeClass.LOST
        assert (await desk.run("add_async", {"a": 1, "b": 1})).result == b"2"


async def test_a_process_that_died_while_it_was_idle_costs_nobody_an_attempt() -> None:
    async with Desk() as desk:
        first = msgspec.json.decode((await desk.run("add", {"a": 1, "b": 2})).result or b"")
        os.kill(first["pid"], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while Path(f"/proc/{first['pid']}").exists():
                await asyncio.sleep(0.01)
        second = msgspec.json.decode((await desk.run("add", {"a": 2, "b": 2})).result or b"")
        assert second["sum"] == 4
        assert second["pid"] != first["pid"]


async def test_a_copy_that_a_handler_makes_of_its_process_says_nothing() -> None:
    async with Desk() as desk:
        for n in range(5):
            first = await desk.run("split", False)
            second = await desk.run("add_async", {"a": n, "b": n})
            assert (first.outcome_class, second.result) == (OutcomeClass.SUCCESS, str(2 * n).encode())


async def test_a_copy_that_a_handler_leaves_behind_does_not_hide_the_death_of_its_process() -> None:
    async with Desk() as desk:
        async with asyncio.timeout(20):
            outcome = await desk.run("split", True)
        assert outcome.error == "the handler's process ended with status 4 in the middle of it"


async def test_kill_for_want_of_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Desk() as desk:
        counts = itertools.chain((4,), itertools.repeat(5))
        monkeypatch.setattr("tickwheel.adapters.handlers.processes.oom_kills", lambda: next(counts))
        outcome = await desk.run("die", "SIGKILL")
        assert outcome.error == "out of memory: the kernel killed the handler's process (SIGKILL)"


def test_kills_are_counted_where_the_kernel_tells(
    tmp_path: "os.PathLike[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(tmp_path)
    (root / "cgroup").write_text("0::/a/b\n")
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    monkeypatch.setattr(memory_limit, "_ROOT", root)
    monkeypatch.setattr(memory_limit, "_MEMBERSHIP", root / "cgroup")
    assert memory_limit.oom_kills() == 2
    (root / "a" / "b" / "memory.events").unlink()
    assert memory_limit.oom_kills() == 0
    monkeypatch.setattr(memory_limit, "_MEMBERSHIP", root / "absent")
    assert memory_limit.oom_kills() == 0


async def test_timeout_kills_the_process() -> None:
    async with Desk() as desk:
        outcome = await desk.run("sleep", timeout_ms=100)
        assert (outcome.outcome_class, outcome.error) == (
            OutcomeClass.TIMEOUT,
            "the handler ran longer than 100 ms",
        )
        assert (await desk.run("add_async", {"a": 1, "b": 1})).result == b"2"


async def test_cancel_kills_the_process() -> None:
    async with Desk() as desk:
        desk.start("sleep")
        await desk.until_busy()
        desk.executor.cancel([0])
        assert (await desk.outcome()).outcome_class is OutcomeClass.CANCELLED


async def test_cancelled_before_its_turn_it_never_runs() -> None:
    async with Desk() as desk:
        for slot in range(2):
            desk.start("sleep", slot=slot)
        desk.start("die", "SIGKILL", slot=2)
        desk.executor.cancel([2])
        assert (await desk.outcome(2)).outcome_class is OutcomeClass.CANCELLED


async def test_close_hands_back_and_leaves_no_process() -> None:
    async with Desk() as desk:
        desk.start("sleep", slot=0)
        await desk.until_busy()
        [child] = desk.executor._processes._busy.values()
        for slot in range(1, 4):
            desk.start("sleep", slot=slot)
        await desk.executor.aclose(10)
        assert {slot: outcome.outcome_class for slot, outcome in desk.outcomes.items()} == dict.fromkeys(
            range(4), OutcomeClass.UNSTARTED
        )
        with pytest.raises(ProcessLookupError):
            os.kill(child.process.pid, 0)


async def test_signals_that_stop_the_parent_are_not_the_childs() -> None:
    async with Desk() as desk:
        desk.start("talk")
        await desk.until_busy()
        [child] = desk.executor._processes._busy.values()
        while not desk.said:
            await asyncio.sleep(0.01)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(child.process.pid, number)
        assert await desk.outcome() == OK


def test_function_that_can_not_be_imported_by_name_is_refused() -> None:
    def local() -> None: ...

    for function in (local, lambda: None):
        with pytest.raises(ValueError, match="can't run in a process apart: that process imports it by name"):
            Handlers().handler("x", run_in="process")(function)
    with pytest.raises(ValueError, match="run_in is 'process' or left out, not 'thread'"):
        Handlers().handler("x", run_in="thread")(local)  # type: ignore[arg-type]  # no such place
