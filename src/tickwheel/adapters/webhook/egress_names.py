"""Host names that say by themselves where they lead, so that nobody has to be asked.

Names of metadata services are refused whatever they resolve to: some clouds answer them at public addresses, and
a resolver may know them only from inside. Whoever needs such a service lists its address and calls that.
"""

from ipaddress import IPv4Address
from typing import Final

from tickwheel.adapters.webhook.address import AddressPolicy

METADATA_NAMES: Final = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
        "rancher-metadata",
        "rancher-metadata.rancher.internal",
    }
)
_LOOPBACK_NAMES: Final = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "localhost4",
        "localhost4.localdomain4",
        "localhost6",
        "localhost6.localdomain6",
        "ip6-localhost",
        "ip6-loopback",
    }
)
_LOOPBACK: Final = IPv4Address("127.0.0.1")


def name_refusal(host: str, addresses: AddressPolicy) -> str | None:
    """Why a name (lower case, without a trailing dot) may not be called, told without a look-up."""
    if host in METADATA_NAMES:
        return "the name of a cloud metadata service (call its address, and list that)"
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        return addresses.refusal(_LOOPBACK)
    return None
