"""What an operator may set about webhooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, TypeAlias

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.egress_proxy import EgressProxy
from tickwheel.domain.webhook_ports import ORDINARY_PORTS, Ports
from tickwheel.ports.vault import NO_VAULT, Vault

HOST_LIMIT_COUNT: Final = 64
CONNECTION_LIMIT_COUNT: Final = 512
CONNECT_TIMEOUT_MS: Final = 5_000
BODY_LIMIT_BYTES: Final = 1 << 20
DNS_TTL_MS: Final = 5_000
IDLE_CONNECTION_S: Final = 4
"""Shorter than the idle timeout of common servers (5 s): a request that meets a closing connection is lost."""


KeysFor: TypeAlias = Callable[[str, str], Sequence[bytes]]
"""(tenant, name of a signing secret or "") -> the raw keys to sign with, newest first; none = unsigned.

Raises `ports.vault.CannotSign`. Asked for each attempt.
"""

PolicyOf: TypeAlias = Callable[[str], EgressPolicy | None]
"""The egress policy of a tenant as it is now; None: it has none of its own. Asked for each attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Limits and trust. `signing_keys` (raw, see `signature.parse_secret`) sign unless there is a `keys_for`."""

    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    ports: Ports = ORDINARY_PORTS
    proxies: Mapping[str, EgressProxy] = field(default_factory=dict)  # by name; "" = of all who name none
    policy_of: PolicyOf = field(default=lambda tenant_id: None, repr=False)
    signing_keys: Sequence[bytes] = field(default=(), repr=False)
    keys_for: KeysFor | None = field(default=None, repr=False)
    vault: Vault = field(default=NO_VAULT, repr=False)  # opens sealed values of headers
    host_limit_count: int = HOST_LIMIT_COUNT  # requests at a time to one host and port
    connection_limit_count: int = CONNECTION_LIMIT_COUNT  # requests at a time in all
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS  # per address that is tried
    body_limit_bytes: int = BODY_LIMIT_BYTES  # of an answer; beyond it reading stops
    dns_ttl_ms: int = DNS_TTL_MS
    ca_file: str | None = field(default_factory=find_ca_file)
    user_agent: str = field(default_factory=lambda: f"tickwheel/{version('tickwheel')}")
