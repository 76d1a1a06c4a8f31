"""An etcd of three members for each test, and the receiver of the suite that breaks PostgreSQL."""

from collections.abc import Iterator

import pytest

# The servers of tests are not installed, so they have no absolute name.
from ..postgresql_faults.conftest import sink  # noqa: F401 - a fixture; as said above
from ..servers.etcd import EtcdCluster


@pytest.fixture
def etcd() -> Iterator[EtcdCluster]:
    with EtcdCluster(3) as cluster:
        yield cluster
