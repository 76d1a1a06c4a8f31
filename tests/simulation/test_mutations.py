"""The simulation bites: each rule of the protocol is dropped in turn, and a scene must notice; with all rules it
must be quiet."""

from contextlib import ExitStack

import pytest

from .mutations import MUTATIONS, Mutation
from .stage import Scene, Stage
from .story import live_through

SCENES = {mutation.scene.__name__: mutation.scene for mutation in MUTATIONS}


def _violations(scene: Scene, mutation: Mutation | None = None) -> list[str]:
    with ExitStack() as stack:
        in_statements = mutation is not None and mutation.patch is None
        if mutation is not None and mutation.patch is not None:
            mutation.patch(stack)
        stage = Stage(scene, [mutation.rule] if mutation is not None and in_statements else [])
        live_through(stage)
    return stage.rulebook.violations


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(SCENES))
def test_no_rule_is_broken_in_a_scene(name: str) -> None:
    assert _violations(SCENES[name]) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_a_dropped_rule_is_noticed(mutation: Mutation) -> None:
    violations = _violations(mutation.scene, mutation)
    noticed = [text for text in violations if text.startswith(tuple(mutation.notices))]
    assert noticed, f"{mutation.rule} ({mutation.dropped}) was not noticed: {violations}"
