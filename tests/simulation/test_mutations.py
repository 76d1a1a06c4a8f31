"""The simulation bites: each rule of the protocol is dropped in turn, and a scene must notice; with all rules it
must be quiet."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from .every_mutation import EVERY, table
from .mutations import Mutation
from .stage import Scene, Stage
from .story import live_through

SCENES = {mutation.scene.__name__: mutation.scene for mutation in EVERY}


def _violations(scene: Scene, mutation: Mutation | None = None) -> list[str]:
    with ExitStack() as stack:
        in_statements = mutation is not None and mutation.patch is None
        if mutation is not None and mutation.patch is not None:
            mutation.patch(stack)
        stage = Stage(scene, [mutation.rule] if mutation is not None and in_statements else [])
        live_through(stage)
    return stage.rulebook.violations


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "simulation.md"


def test_the_page_has_the_table_of_dropped_rules() -> None:
    """`python -m tests.simulation mutations` prints it anew."""
    assert table() in PAGE.read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(SCENES))
def test_no_rule_is_broken_in_a_scene(name: str) -> None:
    assert _violations(SCENES[name]) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", EVERY, ids=[mutation.name for mutation in EVERY])
def test_a_dropped_rule_is_noticed(mutation: Mutation) -> None:
    violations = _violations(mutation.scene, mutation)
    noticed = [text for text in violations if text.startswith(tuple(mutation.notices))]
    assert noticed, f"{mutation.rule} ({mutation.dropped}) was not noticed: {violations}"
