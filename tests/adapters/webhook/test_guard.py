"""Hostile and odd URLs, and the classes of addresses; no network at all."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.webhook.address import AddressPolicy, parse_networks, special_class
from tickwheel.adapters.webhook.endpoint import EndpointRefused, parse_endpoint

STRICT = AddressPolicy()

REFUSED_FORMS = [
    "",
    "   ",
    "example.com",
    "//example.com/",
    "http:/example.com/",
    "http:example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/_x",
    "dict://127.0.0.1:11211/stat",
    "javascript:alert(1)",
    "http://",
    "http:///path",
    "http://:80/",
    "http://?x",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@169.254.169.254/",
    "http://example.com:80@127.0.0.1/",
    "http://example.com\\@127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.01/",
    "http://0/",
    "http://1.2.3.4.5/",
    "http://256.0.0.1/",
    "http://foo.0x1/",
    "http://foo.09/",
    "http://%31%32%37.0.0.1/",
    "http://example.com%00.evil.test/",
    "http://example.com\r\nX-Injected: 1/",
    "http://example.com/\r\nX-Injected:1",
    "http://example.com/a b",
    "http://exa mple.com/",
    "http://example.com\t/",
    "http://\u2488\u2488/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://ⓛocalhost/",
    "http://bücher.example/",
    "http://example.com\u3002evil.test/",
    "http://a..b/",
    "http://.example.com/",
    "http://example.com../",
    "http://-a.example/",
    "http://a-.example/",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 127 + "aa/",
    "http://ex*mple.com/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:999999/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://example.com:8o/",
    "http://[::1/",
    "http://::1/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://[v1.fe80::a]/",
    "http://[::1]x/",
    "http://[::g]/",
    "http://example.com/\ud800",
    "http://example.com/" + "a" * 5000,
]


@pytest.mark.parametrize("url", REFUSED_FORMS)
def test_odd_forms_are_refused(url: str) -> None:
    with pytest.raises(EndpointRefused) as refusal:
        parse_endpoint(url)
    assert "secret" not in str(refusal.value)


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


@pytest.mark.parametrize(
    ("url", "rebuilt", "host", "port"),
    [
        ("HTTP://Example.COM", "http://example.com/", "example.com", 80),
        ("https://example.com:443/a?b=c#d", "https://example.com/a?b=c", "example.com", 443),
        ("https://example.com.:8443?x=1", "https://example.com:8443/?x=1", "example.com", 8443),
        ("http://example.com:/p", "http://example.com/p", "example.com", 80),
        ("http://1.1.1.1:81/p", "http://1.1.1.1:81/p", "1.1.1.1", 81),
        ("http://[2606:4700::0:1111]:81/", "http://[2606:4700::1111]:81/", "2606:4700::1111", 81),
        ("http://a_b.example/%41/ü?q=é", "http://a_b.example/%41/%C3%BC?q=%C3%A9", "a_b.example", 80),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example", 80),
        ("http://example.com/@x:y", "http://example.com/@x:y", "example.com", 80),
    ],
)
def test_good_urls_are_rebuilt(url: str, rebuilt: str, host: str, port: int) -> None:
    endpoint = parse_endpoint(url)
    assert (endpoint.url, endpoint.host, endpoint.port) == (rebuilt, host, port)


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


def test_bad_network_is_quoted() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33"):
        parse_networks(["10.0.0.0/33"])
