"""Addresses: targets of webhooks, servers, proxies, networks and ports; their passwords are never shown."""

import re
from collections.abc import Callable
from ipaddress import IPv4Address
from urllib.parse import urlsplit

from hypothesis import strategies as st

from tickwheel.adapters.coordination.address import read_address as read_coordinator
from tickwheel.adapters.pull.calls import _checked as checked_server
from tickwheel.adapters.redis.address import read_address as read_redis
from tickwheel.adapters.webhook.address import parse_networks, special_class
from tickwheel.adapters.webhook.endpoint import URL_LIMIT_CHARS, EndpointRefused, parse_endpoint
from tickwheel.domain.egress import EgressPolicy, parse_entry, read_entries
from tickwheel.domain.egress_proxy import read_proxies, shown_proxy
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.nat64 import read_prefixes
from tickwheel.domain.redaction import HIDDEN, redacted, without_passwords
from tickwheel.domain.requests.target_rules import endpoint_fault
from tickwheel.domain.sealed import origin_of
from tickwheel.domain.webhook_ports import read_ports
from tickwheel.interfaces.client.transport import check_url

from ..parser import Parser, encoded, to_text
from ..strategies import DIGITS, NOISE, edited, joined, maybe, near, pick

SECRET = "s3cret"
_HOSTS = pick(
    *(
        "example.com",
        "localhost",
        "127.0.0.1",
        "10.0.0.7",
        "[::1]",
        "[fd00::7]",
        "[::ffff:10.0.0.1]",
        "xn--mnchen-3ya.example",
    ),
    *(
        "0177.0.0.1",
        "2130706433",
        "0x7f.1",
        "127.1",
        "169.254.169.254",
        "a",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a_b",
        "ex%61mple",
        "",
    ),
    *(
        "[::1%25lo]",
        "[fe80::1%eth0]",
        "[v1.x]",
        "exa\u2100mple",
        "\u212aelvin",
        "\uff11.1.1.1",
        "[64:ff9b::7f00:1]",
        "[::127.0.0.1]",
    ),
)
_PORTS = maybe(joined(":", st.one_of(pick("80", "443", "8443", "0", "65535", "65536"), DIGITS)))
_PATHS = pick(
    "", "/", "/x", "/a?b=c", "?q", "#f", "/#f", "/%2e%2e/", "//x", "/a b", "/\\x", "/ä", "/@h", "/..;/", "/\u2028"
)
_WORDS = (
    b"@",
    b":",
    b"//",
    b"\\",
    b"#",
    b"?",
    b"[",
    b"]",
    b"%40",
    b"%",
    b".",
    b"://",
    b",",
    "\u2100".encode(),
    b"=",
    b"&",
)


_HOST_AND_PORT = re.compile(r"[^:@/?]*(?::[0-9]{1,5})?")


def is_hidden(url: str) -> bool:
    """Whether the mark stands where a password stands: after a colon, before the last @ that isn't an option's.

    Nobody can tell `u:12?a=b@h` from a host with a port and an option. Where the mark is there twice, the other
    one may well be shown.
    """
    if url.count(SECRET) != 1:
        return False
    user_part = url.partition("://")[2].rpartition("@")[0]
    place, _, query = user_part.partition("?")
    before, _, hosts = place.rpartition("@")
    if "=" in query.partition("@")[0] and all(
        _HOST_AND_PORT.fullmatch(host) for host in hosts.partition("/")[0].split(",")
    ):
        user_part = before
    return SECRET in user_part.partition(":")[2]


def check_endpoint(data: bytes) -> bool:
    text = to_text(data)
    fault = endpoint_fault(text)
    try:
        endpoint = parse_endpoint(text)
    except EndpointRefused as error:
        assert len(str(error)) < 200
        return False
    if len(endpoint.url) <= URL_LIMIT_CHARS:  # percent-encoded it is longer
        assert parse_endpoint(endpoint.url) == endpoint
    parts = urlsplit(endpoint.url)
    assert parts.hostname == endpoint.host
    assert (parts.port or {"http": 80, "https": 443}[parts.scheme]) == endpoint.port
    assert parts.username is None
    assert endpoint.url.isascii()
    assert endpoint.url.isprintable()
    if endpoint.address is None:
        assert not endpoint.host.replace(".", "").isdigit()
    else:
        assert str(endpoint.address) == endpoint.host
        special_class(endpoint.address)
    if fault is None:
        # What a stored secret is bound to names the server that is really called.
        origin = parse_endpoint(origin_of(text) + "/")
        assert (origin.authority, urlsplit(origin.url).scheme) == (endpoint.authority, parts.scheme)
    return True


_URLS = joined(
    pick("http://", "https://", "HTTPS://", "ftp://", "http:/", ""),
    maybe(pick("u@", "u:p@")),
    _HOSTS,
    _PORTS,
    _PATHS,
)


def _check_secretive(read: Callable[[str], object], data: bytes) -> bool:
    url = to_text(data)
    hides = is_hidden(url)
    try:
        address = read(url)
    except ConfigError as error:
        assert not (hides and SECRET in str(error)), "the error shows the password"
        assert len(str(error)) < 2_000
        return False
    assert not (hides and SECRET in repr(address)), "the address shows the password"
    return True


def check_redis(data: bytes) -> bool:
    return _check_secretive(lambda url: read_redis(url, setting="queue"), data)


def check_coordinator(data: bytes) -> bool:
    return _check_secretive(lambda url: read_coordinator(url, scheme="etcd", port=2379, cluster="c"), data)


def check_redaction(data: bytes) -> bool:
    url = to_text(data)
    shown = redacted(url)
    assert redacted(shown) == shown
    if is_hidden(url):
        assert SECRET not in shown, "the password is shown"
    message = without_passwords(f"tried {url} and {SECRET}", url)
    assert len(message) <= len(url) * (len(HIDDEN) + 1) + 200
    return shown != url


def check_server_url(data: bytes) -> bool:
    url = to_text(data)
    taken = False
    for read, refusal in ((checked_server, ConfigError), (check_url, ValueError)):
        try:
            address = read(url)
        except refusal as error:
            assert type(error) is refusal
            assert not (is_hidden(url) and SECRET in str(error)), "the error shows the password"
            continue
        taken = True
        assert read(address) == address
        parts = urlsplit(address)
        assert parts.hostname
        assert parts.port is None or parts.port
        assert "@" not in parts.netloc
        assert re.fullmatch(r"[!-~]+", address)
        assert not {"?", "#"} & set(address), "paths would go behind it"
    return taken


def check_proxy(data: bytes) -> bool:
    text = to_text(data)
    shown = shown_proxy(text)
    assert not (is_hidden(text) and SECRET in shown), "the password is shown"
    try:
        proxies = read_proxies(text.split("\n"))
    except ValueError as error:
        assert type(error) is ValueError
        assert not (is_hidden(text) and SECRET in str(error)), "the error shows the password"
        return False
    for proxy in proxies.values():
        assert SECRET not in repr(proxy)
        assert 0 < proxy.port < 65_536
    return True


def check_egress_entry(data: bytes) -> bool:
    text = to_text(data)
    faults = EgressPolicy(allow=(text,)).faults()
    try:
        entry = parse_entry(text)
    except ValueError as error:
        assert type(error) is ValueError
        assert [fault.message for fault in faults] == [str(error)]
        assert read_entries.__wrapped__((text,)) == ()
        assert EgressPolicy(allow=(text,)).refusal("example.com", 443) is not None
        return False
    assert not faults
    assert parse_entry(text.strip().upper()) == entry
    assert entry.port is None or 1 <= entry.port <= 65_535
    assert (entry.network is None) == bool(entry.name)
    if entry.network is not None:
        assert entry.holds(entry.network.network_address)
        assert not entry.names("example.com")
    else:
        host = f"x.{entry.name}" if entry.below else entry.name
        assert entry.names(host)
        assert not entry.names(f"evil{entry.name}") or entry.below is False
        assert not entry.holds(IPv4Address("10.0.0.1"))
    return True


_ENTRIES = st.one_of(
    joined(maybe(pick("*.", "*", "*.*.")), _HOSTS, _PORTS),
    joined(_HOSTS, "/", DIGITS),
    pick(
        "203.0.113.0/24", "2001:db8::/32", "[2001:db8::/32]:443", "10.0.0.1/8", "::/0", "1.2.3.4:80", "*", "[::]:1"
    ),
)


def check_network_lists(data: bytes) -> bool:
    """Networks, NAT64 prefixes and ports, as settings name them."""
    texts, taken = to_text(data).split("\n"), False
    for read in (parse_networks, read_prefixes, read_ports):
        try:
            read(texts)
        except ValueError as error:
            assert isinstance(error, ValueError)
            assert not isinstance(error, UnicodeError)
            continue
        taken = True
    return taken


_PASSWORDS = st.one_of(
    pick(SECRET, f"{SECRET}%40", f"a{SECRET}b"),
    st.builds(lambda one, other: one + SECRET + other, NOISE, NOISE),
    st.builds(
        lambda one, other: one + SECRET + other,
        pick("/", "?", "#", "@", ":", "&", "="),
        pick("", "/", "?", "@", "=", "#"),
    ),
)


def secretive(*schemes: str) -> st.SearchStrategy[str]:
    """Addresses with a password, and maybe options."""
    return joined(
        *(pick(*schemes), "://", maybe(joined(pick("u", "", "user%40x"), ":", _PASSWORDS, "@"))),
        *(
            st.lists(joined(_HOSTS, _PORTS), min_size=1, max_size=3).map(",".join),
            maybe(joined("/", pick("0", "3", "x", "a/b", ""))),
        ),
        maybe(
            joined(
                "?",
                st.lists(
                    joined(pick("ca", "cert", "key", "password", "x", "sslpassword"), "=", NOISE), max_size=3
                ).map("&".join),
            )
        ),
    )


def bare(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return near(st.one_of(texts, texts, edited(texts)))


PARSERS = (
    Parser(
        name="webhook_endpoint",
        check=check_endpoint,
        grammar=lambda: near(_URLS),
        examples=encoded(
            ["https://example.com:8443/hook?a=b", "http://[2001:db8::1]/", "https://10.0.0.7/x", "http://a.b.:80"]
        ),
        words=_WORDS,
        share=1.5,
    ),
    Parser(
        name="redis_url",
        check=check_redis,
        grammar=lambda: bare(secretive("redis", "rediss", "redis+cluster", "rediss+cluster", "http", "")),
        examples=encoded(
            [f"redis://app:{SECRET}@h:6380/3", f"rediss+cluster://:{SECRET}@a,b:7001?ca=x&key=y", "redis://h"]
        ),
        words=_WORDS,
    ),
    Parser(
        name="coordinator_url",
        check=check_coordinator,
        grammar=lambda: bare(secretive("etcd", "etcds", "consul", "")),
        examples=encoded(
            [f"etcd://u:{SECRET}@h1:2379,h2,h3/prefix", f"etcds://u:{SECRET}@h?ca=ca.pem", "etcd://[::1]"]
        ),
        words=_WORDS,
    ),
    Parser(
        name="redaction",
        check=check_redaction,
        grammar=lambda: bare(secretive("postgresql", "redis", "sqlite", "etcd", "")),
        examples=encoded(
            [
                f"postgresql://app:{SECRET}@db/jobs?sslpassword=x&a=b",
                f"redis://:{SECRET}@h",
                "sqlite:data",
                "a://h?token=1",
            ]
        ),
        words=(*_WORDS, b"password", b"secret=", b"token", SECRET.encode()),
    ),
    Parser(
        name="server_url",
        check=check_server_url,
        grammar=lambda: near(st.one_of(_URLS, secretive("http", "https"))),
        examples=encoded(["http://127.0.0.1:8080", "https://tickwheel.example/base/", f"https://u:{SECRET}@h"]),
        words=_WORDS,
    ),
    Parser(
        name="egress_proxy",
        check=check_proxy,
        grammar=lambda: near(
            joined(
                maybe(pick("eu=", "direct=", "=", "a b=")), secretive("http", "https", "socks5", "socks5h", "ftp")
            )
        ),
        examples=encoded(
            [
                f"http://u:{SECRET}@proxy.internal:3128",
                f"eu=socks5h://u:{SECRET}@10.0.0.1",
                "http://p\neu=http://q",
            ]
        ),
        words=(*_WORDS, b"eu=", b"\n"),
        share=0.5,
    ),
    Parser(
        name="egress_entry",
        check=check_egress_entry,
        grammar=lambda: near(_ENTRIES),
        examples=encoded(
            ["api.example.com", "*.example.com:8443", "203.0.113.0/24", "[2001:db8::]:443", "10.0.0.7:80"]
        ),
        words=(*_WORDS, b"*.", b"/24", b"/0"),
    ),
    Parser(
        name="network_lists",
        check=check_network_lists,
        grammar=lambda: near(
            st.lists(
                st.one_of(_ENTRIES, joined(DIGITS, maybe(joined("-", DIGITS))), pick("default", "64:ff9b::/96")),
                max_size=3,
            ).map("\n".join)
        ),
        examples=encoded(["10.0.0.0/8\n fd00::/8", "default\n443\n8000-8999", "2001:db8:64::/96"]),
        words=(b"/", b"-", b"\n", b"::", b"default", b"99999"),
        share=0.5,
    ),
)
