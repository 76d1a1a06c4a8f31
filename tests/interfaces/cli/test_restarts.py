"""When a process that ended is started again."""

from itertools import pairwise

from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.restarts import CALM_S, CRASH_LIMIT, LONGEST_PAUSE_S, Ended, Reason, Restarts

CRASH = Ended("SIGSEGV", 1.0)
REFUSAL = Ended("no database", 1.0, reason=Reason(["no database"], ExitCode.FAILED))


def test_pauses_double_and_then_it_is_given_up() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(CRASH, others_ready=True) for _ in range(CRASH_LIMIT)]
    assert pauses[-1] is None
    before = [pause for pause in pauses if pause is not None]
    assert len(before) == CRASH_LIMIT - 1
    assert all(later == 2 * earlier for earlier, later in pairwise(before))


def test_one_that_worked_for_a_while_begins_anew() -> None:
    restarts = Restarts()
    for _ in range(10 * CRASH_LIMIT):
        assert restarts.pause_s(CRASH, others_ready=False) == 0.2
        assert restarts.pause_s(Ended("SIGKILL", CALM_S + 1), others_ready=False) == 0


def test_one_that_says_why_is_tried_as_long_as_another_works() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(REFUSAL, others_ready=True) for _ in range(2_000)]
    assert set(pauses[CRASH_LIMIT:]) == {LONGEST_PAUSE_S}
    assert restarts.pause_s(REFUSAL, others_ready=False) is None
    assert restarts.pause_s(CRASH, others_ready=True) is None


def test_one_that_was_told_to_drain_is_started_again_at_once() -> None:
    restarts = Restarts()
    assert {restarts.pause_s(Ended("exit code 0", 1.0, was_asked=True), others_ready=True) for _ in range(9)} == {
        0
    }
