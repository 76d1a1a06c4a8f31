"""IPv4 addresses inside of IPv6 ones, as networks without IPv4 reach it (RFC 6052).

The 32 bits follow the prefix, but for the eight from bit 64 on, which stay zero:
`2001:db8:64::/56` with 192.0.2.33 is `2001:db8:64:c0:0:221::` (one byte before those eight, three behind).
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

PREFIX_LENGTHS: Final = (32, 40, 48, 56, 64, 96)


def inner_address(address: IPv6Address, prefix_length: int) -> IPv4Address:
    """The IPv4 address that a gateway with such a prefix takes from `address`."""
    bits = int(address)
    if prefix_length == PREFIX_LENGTHS[-1]:
        return IPv4Address(bits & 0xFFFF_FFFF)
    joined = bits >> 64 << 56 | bits & (1 << 56) - 1  # 120 bits: without those from 64 to 71
    return IPv4Address(joined >> 120 - 32 - prefix_length & 0xFFFF_FFFF)


def read_prefixes(texts: Sequence[str]) -> tuple[IPv6Network, ...]:
    """Prefixes as an operator writes them. Raises ValueError that quotes the bad one."""
    prefixes = []
    for text in texts:
        try:
            prefix = IPv6Network(text.strip())
        except ValueError:
            raise ValueError(f"{text!r} is not an IPv6 network such as 2001:db8:64::/96") from None
        if prefix.prefixlen not in PREFIX_LENGTHS:
            lengths = ", ".join(map(str, PREFIX_LENGTHS))
            raise ValueError(f"{text!r} has a length that NAT64 does not know; it is one of {lengths}")
        prefixes.append(prefix)
    return tuple(prefixes)
