"""Random sequences of verbs against the reference and the adapter side by side: both must show the same.

Besides comparing the two, each step checks what holds whatever happened: every open run has one timer, an active
recurring job has one live timer, tokens rise, attempts stay within their policy, final states stay. A rule of
its own per verb would let hypothesis switch most verbs off in most examples; one rule over all verbs goes deeper.
Deepest go the seeded walks, which are long but do not shrink. Hypothesis's profile `long`, which is described in
`tests/conftest.py`, searches longer in both ways.
"""

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tickwheel.domain.columns import CompletionCause
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote

from .factories import BACKENDS
from .owner import LEASE_MS
from .world import LIMITS, World

NUMBERS = st.integers(0, 1 << 16)
RARELY = st.sampled_from([False] * 5 + [True])
NOTES = st.sampled_from([None, AttemptNote("boom", "503"), AttemptNote(None, "")])
ENDS = st.sampled_from([RunState.SUCCEEDED, RunState.FAILED, RunState.SCHEDULED, RunState.SCHEDULED])
CAUSES = st.sampled_from([CompletionCause.WORKER] * 6 + list(CompletionCause))


def verb(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """Calls of one method of `World`."""
    return st.fixed_dictionaries(arguments).map(lambda values: (name, values))


INSERT = verb(
    "insert",
    recurring=st.sampled_from([False, True, True]),
    delay_ms=st.sampled_from([-5_000, 0, 0, 1]),
    key=st.sampled_from([None, "k", "l"]),
    limits=st.integers(0, len(LIMITS) - 1),
)
CLAIM_SOME = verb(
    "claim",
    picks=st.lists(NUMBERS, min_size=1, max_size=4),
    stale=RARELY,
    skip=RARELY,
    next_in_ms=st.sampled_from([1_000, 1_000, 60_000, 1, None]),
    old_token=RARELY,
)
COMPLETE_SOME = verb(
    "complete",
    picks=st.lists(NUMBERS, min_size=1, max_size=3),
    state=ENDS,
    cause=CAUSES,
    delay_ms=st.sampled_from([0, 500]),
    note=NOTES,
)
CHANGE = verb(
    "change",
    pick=NUMBERS,
    delay_ms=st.sampled_from([0, 60_000]),
    what=st.sampled_from(["edit"] * 6 + ["pause"] * 6 + ["cancel", "delete"]),
)
STEPS = st.one_of(
    INSERT,
    verb("wait_for_the_next_timer"),
    CLAIM_SOME,
    CLAIM_SOME,
    CLAIM_SOME,
    COMPLETE_SOME,
    COMPLETE_SOME,
    verb("renew", pick=NUMBERS, mark=st.booleans()),
    verb("wait", length_ms=st.sampled_from([0, 1, 700, 1_000, 1_000, LEASE_MS, 200_000])),
    CHANGE,
    verb("change_one_run", pick=NUMBERS, again=st.booleans()),
    st.one_of(verb("take_over"), verb("restart"), verb("sweep", retention_ms=st.sampled_from([0, 100_000]))),
)


class StoreMachine(RuleBasedStateMachine):
    """Walks through `STEPS`."""

    adapter = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.adapter)

    def teardown(self) -> None:
        self.world.close()

    @rule(step=STEPS)
    def act(self, step: tuple[str, dict[str, Any]]) -> None:
        name, arguments = step
        getattr(self.world, name)(**arguments)

    @invariant()
    def both_show_the_same(self) -> None:
        self.world.both_show_the_same()


class SqliteMachine(StoreMachine):
    adapter = "sqlite"


EXAMPLES = settings().max_examples // 10
BOUNDS = settings(max_examples=EXAMPLES, stateful_step_count=50)
TestMemoryModel = StoreMachine.TestCase
TestMemoryModel.settings = BOUNDS
TestSqliteModel = SqliteMachine.TestCase
TestSqliteModel.settings = BOUNDS


def random_step(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """One of `STEPS` with much the same weights."""

    def rarely() -> bool:
        return draw.random() < 0.1

    def picks(most: int) -> list[int]:
        return [draw.randrange(1 << 16) for _ in range(draw.randint(1, most))]

    name = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    match name:
        case "insert":
            return name, {
                "recurring": draw.random() < 0.6,
                "delay_ms": draw.choice([-5_000, 0, 1]),
                "key": draw.choice([None, None, "k", "l"]),
                "limits": draw.randrange(len(LIMITS)),
            }
        case "claim":
            next_in_ms = draw.choice([1_000, 1_000, 1_000, 60_000, 60_000, 1, None])
            flags = {"stale": rarely(), "skip": rarely(), "old_token": rarely()}
            return name, {"picks": picks(4), "next_in_ms": next_in_ms, **flags}
        case "complete":
            return name, {
                "picks": picks(3),
                "state": draw.choice(
                    [RunState.SUCCEEDED, RunState.FAILED, RunState.SCHEDULED, RunState.SCHEDULED]
                ),
                "cause": draw.choice([CompletionCause.WORKER] * 6 + list(CompletionCause)),
                "delay_ms": draw.choice([0, 500]),
                "note": draw.choice([None, AttemptNote("boom", "503"), AttemptNote(None, "")]),
            }
        case "renew":
            return name, {"pick": picks(1)[0], "mark": draw.random() < 0.5}
        case "wait":
            return name, {"length_ms": draw.choice([0, 1, 700, 1_000, 1_000, LEASE_MS, 200_000])}
        case "change":
            what = draw.choice(["edit"] * 6 + ["pause"] * 6 + ["cancel", "delete"])
            return name, {"pick": picks(1)[0], "delay_ms": draw.choice([0, 60_000]), "what": what}
        case "change_one_run":
            return name, {"pick": picks(1)[0], "again": draw.random() < 0.7}
        case "sweep":
            return name, {"retention_ms": draw.choice([0, 100_000])}
    return name, {}


WEIGHTS = {
    "insert": 6,
    "wait_for_the_next_timer": 8,
    "claim": 24,
    "complete": 18,
    "renew": 6,
    "wait": 6,
    "change": 8,
    "change_one_run": 6,
    "take_over": 1,
    "restart": 1,
    "sweep": 2,
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("adapter", sorted(BACKENDS))
@pytest.mark.parametrize("seed", range(max(2, EXAMPLES // 5)))
def test_a_long_walk_shows_the_same_on_both(adapter: str, seed: int) -> None:
    world, draw = World(adapter), random.Random(seed)
    try:
        for number in range(200):
            name, arguments = random_step(draw)
            try:
                getattr(world, name)(**arguments)
                world.both_show_the_same()
            except AssertionError as error:
                raise AssertionError(f"step {number}: {name} {arguments}\n{error}") from error
    finally:
        world.close()
