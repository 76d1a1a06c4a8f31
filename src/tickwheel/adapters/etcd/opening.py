"""From a URL to a coordinator on etcd."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tickwheel.adapters.coordination.address import read_address
from tickwheel.adapters.coordination.coordinator import LAPSE_MS, KeyCoordinator
from tickwheel.adapters.coordination.http_calls import TRY_MS, HttpCalls
from tickwheel.adapters.etcd.keys import EtcdKeys
from tickwheel.ports.clock import Clock

PORT: Final = 2379
USER_VARIABLE: Final = "ETCDCTL_USER"
"""`user:password`, as etcd's own tool reads it; for those who don't want it in the URL."""


def open_etcd_coordinator(
    url: str,
    clock: Clock,
    *,
    cluster: str = "",
    lapse_ms: int = LAPSE_MS,
    try_ms: int = TRY_MS,
    environ: Mapping[str, str] = os.environ,
) -> KeyCoordinator:
    """Nothing is sent yet; `try_ms` bounds each try of a request.

    Raises `ConfigError` for a URL that can't be understood.
    """
    address = read_address(url, scheme="etcd", port=PORT, cluster=cluster)
    if not address.user:
        user, _, password = environ.get(USER_VARIABLE, "").partition(":")
        address = replace(address, user=user, password=password)
    return KeyCoordinator(EtcdKeys(address, clock, HttpCalls(address, try_ms=try_ms)), clock, lapse_ms)
