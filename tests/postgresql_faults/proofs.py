"""What has to hold during and after every fault of the database."""

import time

from ..servers.cluster import DATABASE, Cluster
from ..servers.waiting import wait_until
from .conftest import Sink
from .load import Answer, SteadyLoad

BACK_S = 30
LONGEST_ANSWER_S = 10
"""A request that waits longer for a store that is away ties up its client."""


def refusals(answers: list[Answer]) -> list[Answer]:
    """Those that were not acknowledged; each must be an honest 503."""
    refused = [answer for answer in answers if answer.status != 201]
    wrong = [answer for answer in refused if answer.status not in (409, 503) or not answer.retry_after]
    assert not wrong, f"{len(wrong)} of {len(refused)}: {wrong[:3]}"
    slow = [answer for answer in answers if answer.took_s > LONGEST_ANSWER_S]
    assert not slow, slow[:3]
    return refused


def wait_until_acknowledged_again(load: SteadyLoad) -> None:
    since = time.monotonic()
    wait_until(lambda: load.acknowledged_since(since) >= 20, BACK_S, "jobs are acknowledged again")


def verify(load: SteadyLoad, sink: Sink) -> None:
    verdict = load.verdict(sink.log)
    assert verdict.clean, str(verdict)
    assert verdict.jobs >= 30, "too little was created to prove anything"


def half_claimed(cluster: Cluster) -> list[tuple[object, ...]]:
    """Runs in flight, once every job has ended."""
    return cluster.server.execute("SELECT job_id FROM tickwheel.runs WHERE state IN (1, 2, 3)", database=DATABASE)
