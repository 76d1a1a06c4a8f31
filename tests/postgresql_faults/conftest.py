"""Nodes on a PostgreSQL server of the test's own, which the test breaks.

The tests run in their short forms; `make test-engines` sets TESTS_LONG=1 for the long ones.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ..acceptance.crash.chaos import sink_process
from ..servers.cluster import Cluster
from ..servers.postgresql_binaries import NoPostgres, find_binaries

LONG = bool(os.environ.get("TESTS_LONG"))
MakeCluster = Callable[..., Cluster]


class Sink:
    """The receiver of webhooks."""

    def __init__(self, port: int, log: Path) -> None:
        self.port, self.log = port, log


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    log = tmp_path / "sink.jsonl"
    with sink_process(log) as port:
        yield Sink(port, log)


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """`make_cluster(nodes=2)` gives nodes that are ready; each reaches the store through a proxy."""
    try:
        find_binaries()
    except NoPostgres as error:
        pytest.skip(str(error))
    with ExitStack() as stack:

        def make(**options: Any) -> Cluster:
            cluster = stack.enter_context(Cluster(tmp_path / "nodes", **options))
            cluster.start()
            return cluster

        yield make


@pytest.fixture
def long() -> bool:
    """Whether there is time for the long form."""
    return LONG
