"""Ports, proxies and prefixes of the egress guard, as an operator writes them."""

from ipaddress import IPv6Address

import pytest

from tickwheel.config import Settings, load_settings
from tickwheel.domain.egress_proxy import EgressProxy, read_proxies
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.nat64 import inner_address, read_prefixes
from tickwheel.domain.webhook_ports import DEFAULT_PORTS, read_ports

NAMED_IN_THE_DOCS = (
    *(22, 25, 53, 110, 143, 389, 445, 465, 587, 993, 1433, 2375, 2379, 3306, 5432, 6379, 9200),
    *(11211, 27017),
)
ORDINARY = (
    1,
    9,
    80,
    81,
    443,
    444,
    591,
    1024,
    3000,
    4000,
    5000,
    7000,
    7001,
    8000,
    8080,
    8443,
    9000,
    10_000,
    65_535,
)


def test_ordinary_ports_are_open_and_those_of_other_protocols_are_not() -> None:
    ports = read_ports([DEFAULT_PORTS])
    assert [port for port in ORDINARY if port not in ports] == []
    assert [port for port in NAMED_IN_THE_DOCS if port in ports] == []
    assert not {0, 65_536, -1} & {port for port in (0, 65_536, -1) if port in read_ports(["1-65535"])}


def test_listed_ports_are_the_only_ones_unless_the_default_is_listed_too() -> None:
    ports = read_ports(["443", "8000-8002"])
    assert [port for port in range(1, 65_536) if port in ports] == [443, 8000, 8001, 8002]
    more = read_ports([DEFAULT_PORTS, "9200"])
    assert 9200 in more
    assert 80 in more
    assert 9300 not in more


def test_proxies_are_read_with_what_they_need() -> None:
    proxies = read_proxies(
        ["http://us%40er:p%3aw@Proxy.example", "eu=https://[2606:4700::1]:8443/", "x=socks5h://s.example"]
    )
    assert proxies == {
        "": EgressProxy(scheme="http", host="proxy.example", port=3128, user="us@er", password="p:w"),
        "eu": EgressProxy(scheme="https", host="2606:4700::1", port=8443),
        "x": EgressProxy(scheme="socks5", host="s.example", port=1080, resolves=True),
    }
    assert read_proxies(["http://p.example:1"], resolves=True)[""].resolves
    assert not read_proxies(["socks5://p.example"])[""].resolves
    assert "p:w" not in repr(proxies)


@pytest.mark.parametrize(
    ("setting", "texts", "remedy"),
    [
        ("webhook_ports", ("http",), "is not 'default', a port such as 443"),
        ("webhook_ports", ("9000-8000",), "is not 'default', a port such as 443"),
        ("webhook_ports", ("0",), "is not 'default', a port such as 443"),
        ("webhook_ports", ("65536",), "is not 'default', a port such as 443"),
        ("egress_proxy", ("proxy.example:3128",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("ftp://proxy.example",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("http://u:secret@/",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("http://u:secret@p.example:port",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("http://u:secret@p.example/path",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("http://u:secret@p.example\r\nX: 1",), "must look like http://proxy.example:3128"),
        ("egress_proxy", ("http://a.example", "http://u:secret@b.example"), "two proxies without a name"),
        ("egress_proxy", ("eu=http://a.example", "eu=http://u:secret@b.example"), "'eu' is given twice"),
        ("egress_proxy", ("direct=http://u:secret@a.example",), "stands for no proxy"),
        ("nat64_prefix", ("10.0.0.0/8",), "is not an IPv6 network"),
        ("nat64_prefix", ("2001:db8::/72",), "a length that NAT64 does not know"),
    ],
)
def test_wrong_texts_are_refused_with_setting_and_remedy(
    setting: str, texts: tuple[str, ...], remedy: str
) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        load_settings(flags={setting: texts}, environ={})
    assert [problem.field for problem in caught.value.problems] == [f"--{setting.replace('_', '-')}"]
    assert "secret" not in str(caught.value)


def test_ports_come_with_commas() -> None:
    settings = load_settings(flags={"webhook_ports": ("default,9200", "22")}, environ={})
    assert settings.webhook_ports == ("default", "9200", "22")


def test_passwords_of_proxies_are_not_shown() -> None:
    shown = repr(Settings(egress_proxy=("http://u:hunter2@a.example", "eu=http://u:hunter2@b.example")))
    assert "hunter2" not in shown
    assert "eu=http://u:***@b.example" in shown


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("2001:db8:c000:221::", 32),
        ("2001:db8:1c0:2:21::", 40),
        ("2001:db8:122:c000:2:2100::", 48),
        ("2001:db8:122:3c0:0:221::", 56),
        ("2001:db8:122:344:c0:2:2100::", 64),
        ("2001:db8:122:344::192.0.2.33", 96),
    ],
)
def test_inner_address_is_found_behind_each_prefix(text: str, length: int) -> None:
    assert str(inner_address(IPv6Address(text), length)) == "192.0.2.33"


def test_prefixes_are_read() -> None:
    assert [str(prefix) for prefix in read_prefixes([" 64:ff9b:1::/48 "])] == ["64:ff9b:1::/48"]
