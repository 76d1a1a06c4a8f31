"""What a tenant's webhooks may call: hosts, networks and ports, private networks, and the proxy on the way.

An allow-list names hosts as URLs do (`api.example.com`), all names below one (`*.example.com`), and networks
(`203.0.113.0/24`, `[2001:db8::]:443`); each may end in a port. A host that is an address is judged at once. A
name that no entry names may still lead into a listed network: that is judged when it was resolved, and only if
*every* address of it lies there. Being on the list does not make a private address reachable; that is what
`allow_private` is for.

Example: with `allow = ["*.example.com", "10.0.0.0/8"]` and `allow_private = ["10.1.0.0/16"]` a name that
resolves to 10.1.0.7 may be called, 10.2.0.7 may not (private), and example.com itself may not (not listed).

What can't be read of a stored policy allows nothing.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, TypeAlias

import msgspec

from tickwheel.domain.errors import FieldProblem

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

ENTRY_COUNT_MAX: Final = 500
ENTRY_CHARS_MAX: Final = 300
DIRECT: Final = "direct"
"""Name of no proxy: what a policy says to go past the installation's default one."""

PROXY_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_ENTRY: Final = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+)(?::(\d{1,5}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)


class Entry(msgspec.Struct, frozen=True):
    """One line of an allow-list: a name or a network, on one port or (None) on any."""

    port: int | None = None
    network: Network | None = None
    name: str = ""
    below: bool = False  # names below `name`, and not `name` itself

    def names(self, host: str) -> bool:
        """Whether this is the entry of that host (lower case, without a trailing dot), whatever the port."""
        if self.network is not None:
            return False
        return host.endswith("." + self.name) if self.below else host == self.name

    def holds(self, address: Address) -> bool:
        """Whether the address lies in this entry's network, whatever the port."""
        network = self.network
        return network is not None and address.version == network.version and address in network

    def opens(self, port: int) -> bool:
        """Whether it is about this port."""
        return self.port is None or self.port == port


def parse_entry(text: str) -> Entry:
    """Read one line of an allow-list. Raises ValueError that quotes it."""
    wanted = text.strip().lower()
    network = _network(wanted)
    if network is not None:
        return Entry(network=network)
    parts = _ENTRY.fullmatch(wanted)
    if parts is None or len(text) > ENTRY_CHARS_MAX:
        raise ValueError(f"{text[:ENTRY_CHARS_MAX]!r} is no host, such as api.example.com, or *.example.com:8443")
    port = int(parts[2]) if parts[2] else None
    if port is not None and not 1 <= port <= 65_535:
        raise ValueError(f"{text!r} has a port that is not within 1..65535")
    network = _network(parts[1].strip("[]"))
    if network is not None:
        return Entry(network=network, port=port)
    name = parts[1].removesuffix(".")
    below = name.startswith("*.")
    name = name[2:] if below else name
    labels = name.split(".")
    if set(parts[1]) & set("[/") or _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{text!r} is not a network such as 203.0.113.0/24")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text!r} is no host name (a * stands for the first label only; others in xn-- form)")
    return Entry(name=name, below=below, port=port)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


class EgressPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The egress policy of one tenant. The one without arguments leaves everything to the settings.

    `allow`: None = any host, an empty list = none. `allow_private`: networks that stand in for the settings
    `allow_private` and `allow_loopback`; None = those of the settings. `proxy`: name of one of the settings'
    proxies, or `direct`; None = their default.
    """

    allow: tuple[str, ...] | None = None
    allow_private: tuple[str, ...] | None = None
    proxy: str | None = None

    def refusal(self, host: str, port: int, address: Address | None = None) -> str | None:
        """Why this host may not be called, as far as its name or (if that is what it is) address tells."""
        if self.allow is None:
            return None
        entries = read_entries(self.allow)
        if address is not None:
            return self.addresses_refusal(host, port, [address])
        if any(entry.names(host) and entry.opens(port) for entry in entries):
            return None
        if any(entry.network is not None and entry.opens(port) for entry in entries):
            return None  # its addresses decide
        return _not_listed(host, port, any(entry.names(host) for entry in entries))

    def addresses_refusal(self, host: str, port: int, addresses: Sequence[Address]) -> str | None:
        """Why a host that has these addresses may not be called."""
        if self.allow is None:
            return None
        entries = [entry for entry in read_entries(self.allow) if entry.opens(port)]
        if any(entry.names(host) for entry in entries):
            return None
        if addresses and all(any(entry.holds(address) for entry in entries) for address in addresses):
            return None
        return _not_listed(host, port, False)

    def faults(self, field: str = "egress") -> list[FieldProblem]:
        """What is wrong with the texts, by their path below `field`."""
        problems = []
        for name, texts in (("allow", self.allow or ()), ("allow_private", self.allow_private or ())):
            if len(texts) > ENTRY_COUNT_MAX:
                problems.append(FieldProblem(f"{field}.{name}", f"has over {ENTRY_COUNT_MAX} entries"))
                continue
            for position, text in enumerate(texts):
                fault = _entry_fault(text) if name == "allow" else _network_fault(text)
                if fault is not None:
                    problems.append(FieldProblem(f"{field}.{name}[{position}]", fault))
        if self.proxy is not None and not PROXY_NAME.fullmatch(self.proxy):
            message = f"must be {DIRECT!r} or the name of a proxy in the server's settings"
            problems.append(FieldProblem(f"{field}.proxy", message))
        return problems


def _not_listed(host: str, port: int, on_other_ports: bool) -> str:
    listed = " on this port" if on_other_ports else ""
    return f"{host}:{port} is not on the allow-list of the tenant's egress policy{listed}"


@lru_cache(maxsize=1024)
def read_entries(texts: tuple[str, ...]) -> tuple[Entry, ...]:
    """The entries that can be read; the others allow nothing."""
    return tuple(parse_entry(text) for text in texts if _entry_fault(text) is None)


def read_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """The networks that can be read; the others allow nothing."""
    found = (_network(text.strip()) for text in texts)
    return tuple(network for network in found if network is not None)


def _entry_fault(text: str) -> str | None:
    try:
        parse_entry(text)
    except ValueError as error:
        return str(error)
    return None


def _network_fault(text: str) -> str | None:
    if _network(text.strip()) is not None:
        return None
    return f"{text[:ENTRY_CHARS_MAX]!r} is not a network such as 10.0.0.0/8 (without bits after the prefix)"
