"""Feeds inputs to a parser and measures: processor time of each, memory of some, and what went wrong.

A finding is not raised at once: the run goes on, and each kind of finding is told once, with the smallest input
that a few deletions lead to.
"""

import gc
import signal
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from .mutations import Mutator
from .parser import Parser

CPU_LIMIT_S = 1.0
HANG_S = 8.0
"""Processor time after which an input is cut off."""
MEMORY_EVERY = 64
MEMORY_FLOOR_BYTES = 16 << 20
MEMORY_FACTOR = 400
"""An input may cost so much memory per byte of its own, and the floor besides."""
PIECE_COUNT = 250
GIVEN_UP_AFTER = 8
"""Kinds of findings of one parser; then it is enough."""


class Hang(BaseException):
    """Not an `Exception`, so that no parser catches it."""


class TooSlow(AssertionError):
    """It came to an answer, but not within the bound."""


class TooMuchMemory(AssertionError):
    """It came to an answer, with more memory than the bound."""


@dataclass
class Finding:
    """One kind of thing that went wrong, with an input that shows it."""

    kind: str
    data: bytes
    text: str


@dataclass
class Report:
    """What came of one parser. `tried` counts inputs that differ from one another."""

    name: str
    tried: int = 0
    grammar: int = 0
    mutated: int = 0
    taken: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: bytes = b""
    most_memory_bytes: int = 0
    took_s: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)


class Runner:
    """One parser's. `until_s` is a time of `time.monotonic` after which nothing new begins."""

    def __init__(self, parser: Parser, until_s: float | None = None) -> None:
        self.parser, self.report = parser, Report(parser.name)
        self._seen: set[int] = set()
        self._until_s = until_s

    @property
    def is_over(self) -> bool:
        """Whether no more inputs should come."""
        out_of_time = self._until_s is not None and time.monotonic() > self._until_s
        return out_of_time or len(self.report.findings) >= GIVEN_UP_AFTER

    def run(self, count: int, number: int = 0) -> Report:
        """About `count` different inputs: half by grammar, half mutations. `number` seeds both."""
        began = time.monotonic()
        self.warm_up()
        self._by_grammar(count // 2, number)
        self._by_mutation(count, number)
        self.report.took_s = time.monotonic() - began
        return self.report

    def warm_up(self) -> None:
        """Let it import and build what it needs only once, so that the first input isn't the slowest."""
        for data in self.parser.corpus():
            self.feed(data)
        self.report.slowest_s, self.report.slowest = 0.0, b""

    def _by_grammar(self, count: int, number: int) -> None:
        """In pieces, between which it may be over."""
        for piece, start in enumerate(range(0, max(1, count), PIECE_COUNT)):
            if self.is_over:
                return
            self._piece(max(1, min(PIECE_COUNT, count - start)), number * 1_000_000 + piece)

    def _piece(self, count: int, number: int) -> None:
        patient = settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )

        def one(data: bytes) -> None:
            self.report.grammar += self.feed(data)

        seed(number)(patient(given(self.parser.grammar())(one)))()

    def _by_mutation(self, count: int, number: int) -> None:
        mutator = Mutator(self.parser.corpus(), self.parser.words, number)
        while self.report.tried < count and not self.is_over:
            data = mutator.next()
            taken_before = self.report.taken
            self.report.mutated += self.feed(data)
            if self.report.taken > taken_before and len(data) < 2_000:
                mutator.keep(data)

    def feed(self, data: bytes) -> bool:
        """One input; False if it was there before."""
        mark = hash(data)
        if mark in self._seen:
            return False
        self._seen.add(mark)
        report = self.report
        report.tried += 1
        try:
            taken, took_s = measured(self.parser.check, data)
            if took_s > CPU_LIMIT_S / 2:
                gc.collect()  # whose turn it is to collect garbage is chance
                taken, took_s = measured(self.parser.check, data)
            if took_s > report.slowest_s:
                report.slowest_s, report.slowest = took_s, data
            if took_s > CPU_LIMIT_S:
                raise TooSlow(f"{took_s:.2f} s of processor time for {len(data)} bytes")
            if report.tried % MEMORY_EVERY == 0:
                self._weigh(data)
        except (Exception, Hang) as error:
            self._note(data, error)
        else:
            report.taken += taken
            report.refused += not taken
        return True

    def _weigh(self, data: bytes) -> None:
        tracemalloc.start()
        try:
            measured(self.parser.check, data, times=8)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.report.most_memory_bytes = max(self.report.most_memory_bytes, peak)
        if peak > MEMORY_FLOOR_BYTES + MEMORY_FACTOR * len(data):
            raise TooMuchMemory(f"{peak} bytes of memory for {len(data)}")

    def _note(self, data: bytes, error: BaseException) -> None:
        kind = kind_of(error)
        known = self.report.findings.get(kind)
        if known is None:
            smaller = data if isinstance(error, Hang | TooSlow) else shrunk(self.parser.check, data, kind)
            text = "".join(traceback.format_exception(error))
            self.report.findings[kind] = Finding(kind, smaller, text)
        elif len(data) < len(known.data):
            known.data = data


def kind_of(error: BaseException) -> str:
    """Its type, and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, Hang | TooSlow | TooMuchMemory) or not frames:
        return type(error).__name__
    return f"{type(error).__name__} at {frames[-1].name}:{frames[-1].lineno}"


def measured(check: Callable[[bytes], bool], data: bytes, times: float = 1) -> tuple[bool, float]:
    """What `check` says, and the processor time of the whole process. Raises `Hang` after far too long."""
    with cut_off(HANG_S * times):
        began = time.process_time()
        taken = check(data)
        return taken, time.process_time() - began


@contextmanager
def cut_off(cpu_s: float) -> Iterator[None]:
    """Raise `Hang` in the block after so much processor time. Main thread only."""

    def stop(number: int, frame: object) -> None:
        raise Hang(f"no answer after {cpu_s:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def shrunk(check: Callable[[bytes], bool], data: bytes, kind: str, tries: int = 300) -> bytes:
    """A smaller input with the same kind of finding."""

    def shows(candidate: bytes) -> bool:
        try:
            measured(check, candidate)
        except (Exception, Hang) as error:
            return kind_of(error) == kind
        return False

    size = len(data) // 2
    while size and tries > 0:
        start = 0
        while start < len(data) and tries > 0:
            tries -= 1
            candidate = data[:start] + data[start + size :]
            if shows(candidate):
                data = candidate
            else:
                start += size
        size //= 2
    return data
