"""A buffer that is flushed, torn, stale, full, hung or away at any moment changes no outcome (I11)."""

import os
from collections import Counter

import pytest

from .buffered import tell_buffered

SEEDS = max(8, int(os.environ.get("SIMULATION_SEEDS", "32")) // 4)
FIRST_SEED = int(os.environ.get("SIMULATION_FIRST_SEED", "0"))
TOGETHER = 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, TOGETHER))
def test_no_rule_is_broken_whatever_happens_to_the_buffer(first: int) -> None:
    met: Counter[str] = Counter()
    broken = []
    for seed in range(first, min(first + TOGETHER, FIRST_SEED + SEEDS)):
        story = tell_buffered(seed)
        met += story.met + Counter({"timers from the buffer": sum(b.given_count for b in story.buffers)})
        broken += [f"seed {seed}: {violation}" for violation in story.rulebook.violations[:3]]
    for what, count in sorted(met.items()):
        print(f"{count:8} {what}")
    assert not broken, "\n".join(broken)
    assert met["timers from the buffer"] > 100, "the buffer was hardly used"
