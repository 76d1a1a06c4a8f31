"""A run that is late because its node died says so, whichever node is asked."""

import asyncio

import pytest

from tickwheel.domain.explanation import Code, Verdict
from tickwheel.domain.ids import shard_of
from tickwheel.services.explanations import Explained
from tickwheel.wiring import Node

from .nodes import TENANT, Nodes, each_second, eventually, fired_again, held_by, runs_of, settled


async def falls_silent(node: Node) -> None:
    """It beats, claims and speaks no more, as if its machine were cut off."""
    assert node.cluster is not None
    assert node.cluster.ownership is not None
    assert node.scheduler is not None
    await node.cluster.ownership.stop()
    loops = list(node.scheduler._loops.values())
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


@pytest.mark.slow
async def test_a_takeover_is_the_reason_for_a_late_run(blank_postgresql: str) -> None:
    async with Nodes(blank_postgresql) as nodes:
        staying, dying = await nodes.open(), await nodes.open()
        await settled(staying, dying)
        job_id = await each_second(dying, "late")
        assert shard_of(job_id) in held_by(dying)
        await fired_again(dying, job_id, 2)

        async def is_near_the_next_second() -> bool:
            return dying.clock.now_ms() % 1_000 > 800

        await eventually(is_near_the_next_second, "its next run comes due soon after it fell silent")
        silent_ms = dying.clock.now_ms()
        await falls_silent(dying)
        await fired_again(staying, job_id, 2)
        told: list[Explained] = []

        async def explained() -> bool:
            assert staying.explaining is not None
            explanations = staying.explaining.explanations
            assert explanations is not None
            runs = [run for run in await runs_of(staying, job_id) if run.scheduled_ms > silent_ms - 1_500]
            told[:] = [await explanations.of_run(TENANT, job_id, run.scheduled_ms) for run in runs]
            return any(Code.TAKEOVER in _codes(one) for one in told)

        await eventually(explained, "a run that is late by the takeover")
        [late] = [one.explanation for one in told if Code.TAKEOVER in _codes(one)]
        assert late.verdict is Verdict.LATE
        assert "the node that owned its shard, " in late.headline
        assert " fell silent; " in late.headline
        assert " took over after " in late.headline


def _codes(explained: Explained) -> list[Code]:
    return [cause.code for cause in explained.explanation.causes]
