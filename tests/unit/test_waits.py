"""What due runs wait for, told to people."""

import pytest

from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.domain.waits import LATELY_MS, MOST, Wait, find_waits, longest, main_wait, wait_text

NOW_MS = 1_700_000_000_000


def delay(kind: DelayKind, subject: str, from_ago_ms: int, until_ago_ms: int = 0, detail: str = "") -> Delay:
    return Delay(kind, subject, "node-1", NOW_MS - from_ago_ms, NOW_MS - until_ago_ms, detail)


def test_what_goes_on_comes_first_then_the_longest() -> None:
    found = find_waits(
        [
            delay(DelayKind.TARGET, "a.example", 9_000, 5_000, "failing"),
            delay(DelayKind.TARGET, "b.example", 3_000, 0, "full"),
            delay(DelayKind.SLOTS, "webhook/LOW", 50_000, 30_000),
            delay(DelayKind.TARGET, "a.example", 60_000, 55_000, "failing"),
            delay(DelayKind.TARGET, "old.example", 900_000, LATELY_MS + 1, "failing"),
            delay(DelayKind.ALIVE, "", 900_000),
            delay(DelayKind.TENANT, "acme", 900_000, 0, "disabled"),
        ],
        NOW_MS,
    )
    assert [wait.subject for wait in found] == ["b.example", "webhook/LOW", "a.example"]
    assert found[0].goes_on(NOW_MS)
    assert not found[1].goes_on(NOW_MS)


def test_few_are_told_and_each_subject_once() -> None:
    many = [Wait("target", f"h{number}", NOW_MS - number, NOW_MS) for number in range(9)]
    assert [wait.subject for wait in longest([*many, *many])] == ["h8", "h7", "h6", "h5", "h4"]
    assert len(longest(many)) == MOST


def test_a_reason_lasts_for_half_of_the_wait_at_least() -> None:
    waits = [Wait("slots", "webhook/LOW", NOW_MS - 400, NOW_MS), Wait("target", "a", NOW_MS - 5_000, NOW_MS)]
    assert main_wait(waits, 9_000) == waits[1]
    assert main_wait(waits, 10_001) is None


@pytest.mark.parametrize(
    ("kind", "subject", "detail", "text"),
    [
        ("target", "a.example", "retry_after", "the host a.example, which asked to be left alone"),
        ("target", "a.example", "of another version", "the host a.example, whose calls are all under way"),
        ("limit", "key\nacme\nK 1", "", "the limit of runs at a time with the key K 1"),
        ("limit", "job_name\nacme\nnightly", "", "the limit of runs at a time of the jobs named nightly"),
        ("limit", "tenant\nacme\n", "", "the limit of runs at a time of the tenant acme"),
        ("tenant", "acme", "due_per_second", "the runs per second that the tenant acme may start"),
        ("slots", "handler/LOW", "", "a slot for handlers in the lane LOW"),
        ("slots", "worker/HIGH", "", "a slot of workers elsewhere in the lane HIGH"),
        ("worker", "send", "", "the handler send, which no server or worker has"),
        ("store", "claims", "", "the store, which could not be worked with"),
        ("takeover", "node-2.0", "proved", "another node to take over from node-2.0, which died"),
        ("start", "", "", "a server to be started: none ran"),
        ("moon", "", "", "a reason that another version knows"),
    ],
)
def test_each_reason_ends_a_sentence(kind: str, subject: str, detail: str, text: str) -> None:
    assert wait_text(Wait(kind, subject, NOW_MS, NOW_MS, detail)) == text
