"""The classes of addresses, and what loosens them; no network at all."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.webhook.address import AddressPolicy, parse_networks, special_class
from tickwheel.adapters.webhook.endpoint import EndpointRefused, parse_endpoint
from tickwheel.domain.nat64 import read_prefixes

STRICT = AddressPolicy()

REFUSED_ADDRESSES = [
    ("http://127.0.0.1/", "loopback"),
    ("http://127.255.255.254:8080/", "loopback"),
    ("https://127.0.0.1./", "loopback"),
    ("http://0.0.0.0/", "unspecified"),
    ("http://10.1.2.3/", "private"),
    ("http://172.16.0.1/", "private"),
    ("http://172.31.255.255/", "private"),
    ("http://192.168.1.1/", "private"),
    ("http://100.64.0.1/", "carrier-grade NAT"),
    ("http://169.254.1.1/", "link-local"),
    ("http://169.254.169.254/latest/meta-data/", "metadata"),
    ("http://100.100.100.200/", "metadata"),
    ("http://168.63.129.16/", "metadata"),
    ("http://192.0.0.8/", "protocol assignment"),
    ("http://192.0.2.1/", "documentation"),
    ("http://198.18.0.1/", "benchmarking"),
    ("http://192.88.99.1/", "6to4 relay"),
    ("http://224.0.0.1/", "multicast"),
    ("http://240.0.0.1/", "reserved"),
    ("http://255.255.255.255/", "reserved"),
    ("http://[::1]/", "loopback"),
    ("http://[::]/", "unspecified"),
    ("http://[::ffff:127.0.0.1]/", "IPv4-mapped"),
    ("http://[::ffff:8.8.8.8]/", "IPv4-mapped"),
    ("http://[::127.0.0.1]/", "IPv4-compatible"),
    ("http://[64:ff9b::7f00:1]/", "NAT64 of loopback"),
    ("http://[64:ff9b::169.254.169.254]/", "NAT64 of cloud metadata"),
    ("http://[64:ff9b:1::1]/", "local NAT64"),
    ("http://[2002:7f00:1::]/", "6to4"),
    ("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "Teredo"),
    ("http://[2001:db8::1]/", "documentation"),
    ("http://[3fff::1]/", "documentation"),
    ("http://[fc00::1]/", "private"),
    ("http://[fd00:ec2::254]/", "metadata"),
    ("http://[fe80::1]/", "link-local"),
    ("http://[fec0::1]/", "site-local"),
    ("http://[ff02::1]/", "multicast"),
    ("http://[100::1]/", "discard-only"),
    ("http://[5f00::1]/", "reserved"),
    ("http://[::ffff:0:127.0.0.1]/", "reserved"),
]


@pytest.mark.parametrize(("url", "name"), REFUSED_ADDRESSES)
def test_special_addresses_are_refused_by_name(url: str, name: str) -> None:
    endpoint = parse_endpoint(url)
    assert endpoint.address is not None
    refusal = STRICT.refusal(endpoint.address)
    assert refusal is not None
    assert name in refusal
    assert "setting allow_" in refusal


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"]
)
def test_public_addresses_pass(text: str) -> None:
    assert STRICT.refusal(ip_address(text)) is None


@given(st.text(max_size=60))
def test_rebuilt_url_reads_the_same_again(text: str) -> None:
    try:
        endpoint = parse_endpoint("http://" + text)
    except EndpointRefused:
        return
    assert parse_endpoint(endpoint.url) == endpoint


@given(st.integers(0, 2**32 - 1).map(ip_address) | st.integers(0, 2**128 - 1).map(ip_address))
def test_whatever_the_table_calls_public_is_global(address: IPv4Address | IPv6Address) -> None:
    if special_class(address) is None:
        assert address.is_global


def test_loopback_is_loosened_by_its_own_setting_only() -> None:
    policy = AddressPolicy(allow_loopback=True)
    assert policy.refusal(ip_address("127.0.0.1")) is None
    assert policy.refusal(ip_address("::1")) is None
    for other in ("0.0.0.0", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"):
        assert policy.refusal(ip_address(other)) is not None


def test_listed_networks_are_loosened() -> None:
    policy = AddressPolicy(allow_private=parse_networks(["10.0.0.0/8", " fd12::/16 "]))
    assert policy.refusal(ip_address("10.200.0.1")) is None
    assert policy.refusal(ip_address("fd12::1")) is None
    assert policy.refusal(ip_address("192.168.0.1")) is not None
    assert policy.refusal(ip_address("fd13::1")) is not None


def test_metadata_address_is_loosened_by_itself_only() -> None:
    metadata = ip_address("169.254.169.254")
    assert AddressPolicy(allow_private=parse_networks(["0.0.0.0/0"])).refusal(metadata) is not None
    assert AddressPolicy(allow_private=parse_networks(["169.254.169.254"])).refusal(metadata) is None


ALL = ("0.0.0.0/0", "::/0")


@pytest.mark.parametrize(
    "text",
    [
        *("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "169.254.42.42", "169.254.0.23"),
        *("fd00:ec2::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fe80::a9fe:a9fe"),
        *("::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254"),
        *("2002:a9fe:a9fe::1", "fe80::5efe:169.254.169.254", "2001:db8:64:a9:fe:a9fe::", "fe80::a9fe:a9fe%eth0"),
    ],
)
def test_wide_networks_open_no_metadata_address_in_whatever_form(text: str) -> None:
    """`::/0` would otherwise hand out credentials by the IPv4 address inside of an IPv6 one."""
    address = ip_address(text)
    for networks in (ALL, (*ALL, "::ffff:0:0/96", "2002::/16", "64:ff9b::/96", "fc00::/7", "fe80::/10")):
        policy = AddressPolicy(
            allow_loopback=True,
            allow_private=parse_networks(networks),
            nat64_prefixes=read_prefixes(["2001:db8:64::/56"]),
        )
        assert policy.refusal(address) is not None


def test_ipv4_mapped_address_is_as_fit_as_the_one_inside() -> None:
    mapped = "::ffff:0:0/96"
    wide = AddressPolicy(allow_private=parse_networks([mapped, "10.0.0.0/8", "169.254.169.254"]))
    assert wide.refusal(ip_address("::ffff:10.1.2.3")) is None
    assert wide.refusal(ip_address("::ffff:8.8.8.8")) is None
    assert "loopback" in str(wide.refusal(ip_address("::ffff:127.0.0.1")))
    assert "private" in str(wide.refusal(ip_address("::ffff:192.168.0.1")))
    loopback = AddressPolicy(allow_loopback=True, allow_private=parse_networks([mapped]))
    assert loopback.refusal(ip_address("::ffff:127.0.0.1")) is None
    both = AddressPolicy(allow_private=parse_networks(["::ffff:169.254.169.254", "169.254.169.254"]))
    assert both.refusal(ip_address("::ffff:169.254.169.254")) is None


def test_bad_network_is_quoted() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33"):
        parse_networks(["10.0.0.0/33"])
