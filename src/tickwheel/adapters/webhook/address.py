"""Which addresses a webhook may reach.

The table is written out (from the registries of special-purpose addresses) and not taken from
`ipaddress.is_global`, whose answers differ between Python versions. IPv6 is refused unless it is global
unicast; forms that carry an IPv4 address inside are refused by their own name, but for NAT64, which is how an
IPv6-only network reaches IPv4: there the inner address is judged. Of NAT64 prefixes that a network has chosen for
itself only its operator can tell (setting `nat64_prefix`): they look like any other address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from tickwheel.domain.egress import Address, Network
from tickwheel.domain.nat64 import inner_address

LOOPBACK: Final = "loopback"
METADATA: Final = "cloud metadata"
SETTING: Final = "setting allow_private"

_METADATA_ADDRESSES: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "169.254.10.10",
        "169.254.42.42",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:42::42",
        "fd00:100::100:200",
        "fd00:a9fe:a9fe::1",
        "fd00:c1::a9fe:a9fe",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
)

_V4_CLASSES: Final = tuple(
    (IPv4Network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignment"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_NAT64: Final = IPv6Network("64:ff9b::/96")
_V6_CLASSES: Final = tuple(
    (IPv6Network(network), name)
    for network, name in (
        ("::1/128", LOOPBACK),
        ("::/128", "unspecified"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard-only"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "protocol assignment"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private (unique local)"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_V6_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")


_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of an interface identifier with an IPv4 address in its lower half (RFC 5214), in any prefix."""


def special_class(address: Address, nat64_prefixes: Sequence[IPv6Network] = ()) -> str | None:
    """The name of the class that makes `address` unfit as a target; None for a public address."""
    if address in _METADATA_ADDRESSES:
        return METADATA
    if isinstance(address, IPv4Address):
        return next((name for network, name in _V4_CLASSES if address in network), None)
    if address.scope_id is not None:
        return "zoned"
    for prefix in (_NAT64, *nat64_prefixes):
        if address in prefix:
            inner = special_class(inner_address(address, prefix.prefixlen))
            return None if inner is None else f"NAT64 of {inner}"
    named = next((name for network, name in _V6_CLASSES if address in network), None)
    if named is not None:
        return named
    if address not in _V6_GLOBAL_UNICAST:
        return "reserved"
    return "ISATAP" if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP else None


def _leads_to_metadata(address: Address, nat64_prefixes: Sequence[IPv6Network]) -> bool:
    """Whether it is a metadata address, or one in IPv6 that something on the way could make one of."""
    if address in _METADATA_ADDRESSES:
        return True
    if isinstance(address, IPv4Address):
        return False
    bits = int(address)
    inner = {IPv4Address(bits & 0xFFFF_FFFF), IPv4Address(bits >> 80 & 0xFFFF_FFFF)}  # the second one is of 6to4
    inner |= {inner_address(address, prefix.prefixlen) for prefix in nat64_prefixes if address in prefix}
    return not _METADATA_ADDRESSES.isdisjoint(inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPolicy:
    """What is loosened: loopback as a whole, and networks that the operator lists (`source` says where).

    A metadata address is loosened only by a network of exactly that address, so that `0.0.0.0/0` does not
    hand out a machine's credentials. The same for an IPv6 address with one inside. An IPv4-mapped address is
    the IPv4 address itself to this machine, so that one has to be fit, too.
    """

    allow_loopback: bool = False
    allow_private: Sequence[Network] = ()
    nat64_prefixes: Sequence[IPv6Network] = ()
    source: str = SETTING

    def refusal(self, address: Address) -> str | None:
        """Why `address` may not be reached, naming its class and the setting that would allow it, or None."""
        name = special_class(address, self.nat64_prefixes)
        if name is None:
            return None
        if self._listed(address, exactly=_leads_to_metadata(address, self.nat64_prefixes)):
            mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
            return None if mapped is None else self.refusal(mapped)
        if name == LOOPBACK:
            return None if self.allow_loopback else f"a loopback address ({self._why_no_loopback()})"
        article = "an" if name[0] in "aeiouI" else "a"
        return f"{article} {name} address (not listed in {self.source})"

    def _why_no_loopback(self) -> str:
        return "setting allow_loopback is off" if self.source == SETTING else f"not listed in {self.source}"

    def _listed(self, address: Address, *, exactly: bool) -> bool:
        return any(
            address.version == network.version
            and address in network
            and (not exactly or network.prefixlen == network.max_prefixlen)
            for network in self.allow_private
        )


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks or single addresses as an operator writes them. Raises ValueError that quotes the bad one."""
    return tuple(ip_network(text.strip()) for text in texts)
