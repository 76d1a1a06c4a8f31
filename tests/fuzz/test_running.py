"""The fuzzing itself: it finds what is there to be found, and makes it small."""

import time
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from . import running
from .mutations import LONGEST_BYTES, Mutator
from .parser import Parser
from .running import Report, Runner


def fuzzed(check: Callable[[bytes], bool], count: int = 400, number: int = 0) -> Report:
    texts = st.text("abc", max_size=5).map(str.encode)
    parser = Parser(name="x", check=check, grammar=lambda: texts, examples=[b"abc"], words=[b"!"])
    return Runner(parser).run(count, number)


def refuses_nothing(data: bytes) -> bool:
    return True


def falls_over(data: bytes) -> bool:
    if b"!" in data:
        raise KeyError(data)
    return True


def takes_long(data: bytes) -> bool:
    if b"!" in data:
        end_s = time.process_time() + 0.05
        while time.process_time() < end_s:
            pass
    return True


def never_ends(data: bytes) -> bool:
    while b"!" in data:
        pass
    return True


def takes_much(data: bytes) -> bool:
    return b"!" not in data or len(bytearray(40 << 20)) > 0


def test_nothing_is_found_where_nothing_is() -> None:
    report = fuzzed(refuses_nothing)
    assert report.findings == {}
    assert report.tried == report.taken == 400
    assert report.grammar > 100
    assert report.mutated > 100


def test_an_exception_is_found_and_its_input_made_small() -> None:
    [finding] = fuzzed(falls_over).findings.values()
    assert finding.data == b"!"
    assert finding.kind.startswith("KeyError at falls_over")


def test_two_faults_are_two_findings() -> None:
    def check(data: bytes) -> bool:
        if b"%" in data:
            raise IndexError
        return falls_over(data)

    kinds = {finding.kind.partition(" ")[0] for finding in fuzzed(check, 2_000).findings.values()}
    assert kinds == {"KeyError", "IndexError"}


@pytest.mark.parametrize(("check", "kind"), [(takes_long, "TooSlow"), (never_ends, "Hang")])
def test_what_takes_long_is_found(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[bytes], bool], kind: str
) -> None:
    monkeypatch.setattr(running, "CPU_LIMIT_S", 0.02)
    monkeypatch.setattr(running, "HANG_S", 0.2)
    monkeypatch.setattr(running, "GIVEN_UP_AFTER", 1)
    assert set(fuzzed(check).findings) == {kind}


def test_what_takes_much_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GIVEN_UP_AFTER", 1)
    monkeypatch.setattr(running, "MEMORY_EVERY", 1)
    monkeypatch.setattr(running, "MEMORY_FLOOR_BYTES", 8 << 20)
    assert set(fuzzed(takes_much).findings) == {"TooMuchMemory"}


def test_the_same_number_makes_the_same_inputs_and_another_one_others() -> None:
    def inputs(number: int) -> list[bytes]:
        tried: list[bytes] = []

        def check(data: bytes) -> bool:
            tried.append(data)
            return True

        fuzzed(check, 200, number)
        return tried

    assert inputs(1) == inputs(1)
    assert inputs(1) != inputs(2)


def test_mutations_stay_within_the_bound_and_begin_with_what_is_kept() -> None:
    mutator = Mutator([b""], [], 0)
    mutator.keep(b"kept" * 30_000)
    made = [mutator.next() for _ in range(300)]
    assert max(map(len, made)) == LONGEST_BYTES
    assert any(b"keptkept" in data for data in made)
