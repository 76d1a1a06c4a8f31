"""A handler that kills whatever process runs it, on a whole node, among handlers that go on."""

from pathlib import Path
from typing import Any

from tickwheel.domain.outcome import LOST_LIMIT_COUNT
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.domain.run import RunState
from tickwheel.interfaces.client.job_fields import job_json
from tickwheel.ports.store import Run
from tickwheel.wiring import Node

from .nodes import TENANT, Nodes, eventually
from .poison_handlers import handlers

assert "poison" in handlers
APP = f"{__name__.rpartition('.')[0]}.poison_handlers:handlers"


async def schedule(node: Node, **fields: Any) -> bytes:
    created = await node.jobs.create(parse_job_request(job_json(fields, None)))
    return created.job_id


async def run_of(node: Node, job_id: bytes) -> Run | None:
    view = await node.jobs.get(TENANT, job_id)
    last = view.current or view.last_run
    return None if last is None else await node.store.get_run(TENANT, job_id, last.scheduled_ms)


async def test_run_that_kills_its_process_is_quarantined_and_others_go_on(tmp_path: Path) -> None:
    async with Nodes(f"sqlite:{tmp_path / 'data'}") as nodes:
        node = await nodes.open(app=APP)
        poison = await schedule(node, handler="poison", retry_policy={"max_retries": 20})
        apart = await schedule(node, handler="apart", payload={"a": 1, "b": 2})
        here = await schedule(node, handler="here", payload=7)

        async def is_told() -> bool:
            run = await run_of(node, apart)
            return run is not None and (run.progress, run.note) == (0.5, "half")

        async def is_over() -> bool:
            runs = [await run_of(node, job_id) for job_id in (poison, apart, here)]
            return all(run is not None and run.state in (RunState.SUCCEEDED, RunState.FAILED) for run in runs)

        await eventually(is_told, "the progress of a handler in a process is on its run")
        await eventually(is_over, "all runs have ended")
        results = [run.result for job_id in (apart, here) if (run := await run_of(node, job_id)) is not None]
        assert results == ["3", '{"nul":"\\u0000","payload":7}']
        [letter] = (await node.store.list_dead(TENANT, 10, None)).items
        assert letter.run.job_id == poison
        assert letter.run.attempt == letter.run.lost_count == LOST_LIMIT_COUNT
        assert letter.cause == "the handler's process was killed by SIGKILL (worker lost 3 times in a row)"
