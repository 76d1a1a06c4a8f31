"""From a URL to a coordinator on Consul."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tickwheel.adapters.consul.keys import ConsulKeys
from tickwheel.adapters.coordination.address import read_address
from tickwheel.adapters.coordination.coordinator import LAPSE_MS, KeyCoordinator
from tickwheel.adapters.coordination.http_calls import TRY_MS, HttpCalls
from tickwheel.ports.clock import Clock

PORT: Final = 8500
TOKEN_VARIABLE: Final = "CONSUL_HTTP_TOKEN"  # noqa: S105 - the name of a variable, the one that Consul's own tool reads


def open_consul_coordinator(
    url: str,
    clock: Clock,
    *,
    cluster: str = "",
    lapse_ms: int = LAPSE_MS,
    try_ms: int = TRY_MS,
    environ: Mapping[str, str] = os.environ,
) -> KeyCoordinator:
    """Nothing is sent yet; `try_ms` bounds each try of a request. The URL's password is the ACL token.

    Raises `ConfigError` for a URL that can't be understood.
    """
    address = read_address(url, scheme="consul", port=PORT, cluster=cluster)
    if not address.password:
        address = replace(address, password=environ.get(TOKEN_VARIABLE, ""))
    return KeyCoordinator(ConsulKeys(address, clock, HttpCalls(address, try_ms=try_ms)), clock, lapse_ms)
