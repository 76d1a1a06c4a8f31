"""URLs that try to lead elsewhere than they say, each with the reason of its refusal; and odd ones that pass."""

from urllib.parse import urlsplit

import pycurl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.adapters.webhook.egress import Gates
from tickwheel.adapters.webhook.endpoint import Endpoint, EndpointRefused, parse_endpoint
from tickwheel.adapters.webhook.settings import WebhookSettings

GATE = Gates(WebhookSettings()).of("default")

SCHEME = "not an http:// or https:// URL"
SPACE = "a space, a control character or a backslash"
USER = "a user name or password"
NO_HOST = "no valid host and port"
NO_NAME = "not a valid name"
PORT = "port is not within 1..65535"
OTHER_PORT = "setting webhook_ports"
ODD_IPV4 = "looks like an IPv4 address in an odd form"
NOT_ASCII = "not ASCII"
ZONE = "has a zone"
NO_IPV6 = "not a valid IPv6 address"
LOOPBACK = "a loopback address"
METADATA = "a cloud metadata address"
METADATA_NAME = "the name of a cloud metadata service"
LONG = "longer than"

HOSTILE = [
    # not for HTTP at all
    ("", SCHEME),
    ("example.com", SCHEME),
    ("//example.com/", SCHEME),
    ("http:/example.com/", SCHEME),
    ("http:example.com", SCHEME),
    ("ftp://example.com/", SCHEME),
    ("file:///etc/passwd", SCHEME),
    ("gopher://127.0.0.1:6379/_FLUSHALL", SCHEME),
    ("dict://127.0.0.1:11211/stat", SCHEME),
    ("unix:///var/run/docker.sock", SCHEME),
    ("javascript:alert(1)", SCHEME),
    ("jar:http://127.0.0.1!/", SCHEME),
    ("httpx://example.com/", SCHEME),
    ("ｈttp://example.com/", SCHEME),
    ("http+unix://%2Fvar%2Frun%2Fdocker.sock/", SCHEME),
    # two readers see two hosts
    ("http://user@example.com/", USER),
    ("http://user:secret@example.com/", USER),
    ("http://example.com@169.254.169.254/", USER),
    ("http://example.com:80@127.0.0.1/", USER),
    ("http://@127.0.0.1/", USER),
    ("http://a@b@127.0.0.1/", USER),
    ("http://[::1]@example.com/", USER),
    ("http://example.com\\@127.0.0.1/", SPACE),
    ("http:\\\\127.0.0.1\\", SPACE),
    ("http://127.0.0.1\\.example.com/", SPACE),
    ("http://example.com\t/", SPACE),
    ("http://exa mple.com/", SPACE),
    (" http://example.com/", SPACE),
    ("http://example.com/\n", SPACE),
    ("http://example.com\r\nX-Injected: 1/", SPACE),
    ("http://example.com/\r\nX-Injected:1", SPACE),
    ("http://example.com/a?b\r\n\r\nGET / HTTP/1.1", SPACE),
    ("http://example.com\x00.evil.test/", SPACE),
    ("http://example.com/\ud800", SPACE),
    ("http://example.com/\x7f", SPACE),
    ("http://example.com:80:80/", NO_HOST),
    ("http://example.com:8o/", NO_HOST),
    ("http://example.com:-1/", NO_HOST),
    ("http://example.com:٨٠/", NO_HOST),
    ("http://example.com:999999/", NO_HOST),
    ("http://", NO_HOST),
    ("http:///path", NO_HOST),
    ("http://:80/", NO_HOST),
    ("http://?x", NO_HOST),
    ("http://#@example.com/", NO_HOST),
    ("http://::1/", NO_HOST),
    ("http://[::1/", NO_HOST),
    ("http://[::1]x/", NO_HOST),
    ("http://[::1].example.com/", NO_HOST),
    ("http://example.com:0/", PORT),
    ("http://example.com:65536/", PORT),
    ("http://example.com/" + "a" * 5000, LONG),
    # IPv4 addresses that some take for names
    ("http://2130706433/", ODD_IPV4),
    ("http://017700000001/", ODD_IPV4),
    ("http://0x7f000001/", ODD_IPV4),
    ("http://0x7f.0.0.1/", ODD_IPV4),
    ("http://0177.0.0.1/", ODD_IPV4),
    ("http://0177.0x0.0.1/", ODD_IPV4),
    ("http://127.1/", ODD_IPV4),
    ("http://127.0.1/", ODD_IPV4),
    ("http://127.0.0.01/", ODD_IPV4),
    ("http://0/", ODD_IPV4),
    ("http://0x/", ODD_IPV4),
    ("http://1.2.3.4.5/", ODD_IPV4),
    ("http://256.0.0.1/", ODD_IPV4),
    ("http://169.254.43518/", ODD_IPV4),
    ("http://0xa9fea9fe/", ODD_IPV4),
    ("http://2852039166/", ODD_IPV4),
    ("http://foo.0x1/", ODD_IPV4),
    ("http://foo.09/", ODD_IPV4),
    ("http://4294967297/", ODD_IPV4),
    # percent signs, other digits, other dots
    ("http://%31%32%37.0.0.1/", NO_NAME),
    ("http://127.0.0.%31/", NO_NAME),
    ("http://localhost%2f.example.com/", NO_NAME),
    ("http://example.com%00.evil.test/", NO_NAME),
    ("http://%5B::1%5D/", NO_HOST),
    ("http://①②⑦.0.0.1/", NOT_ASCII),
    ("http://\uff11\uff12\uff17.0.0.1/", NOT_ASCII),
    ("http://\u2488\u2488/", NOT_ASCII),
    ("http://example.com\u3002evil.test/", NOT_ASCII),
    ("http://127\uff0e0\uff0e0\uff0e1/", NOT_ASCII),
    ("http://ⓛocalhost/", NOT_ASCII),
    ("http://LOCAL\u212aHOST/", NOT_ASCII),
    ("http://example.com\u2044@127.0.0.1/", USER),
    ("http://bücher.example/", NOT_ASCII),
    ("http://exam\u00adple.com/", NOT_ASCII),
    # no names
    ("http://a..b/", NO_NAME),
    ("http://.example.com/", NO_NAME),
    ("http://./", NO_NAME),
    ("http://example.com../", NO_NAME),
    ("http://127.0.0.1../", NO_NAME),
    ("http://-a.example/", NO_NAME),
    ("http://a-.example/", NO_NAME),
    ("http://ex*mple.com/", NO_NAME),
    ("http://exa'mple.com/", NO_NAME),
    ("http://a,b.example/", NO_NAME),
    ("http://" + "a" * 64 + ".example/", NO_NAME),
    ("http://" + "a." * 127 + "aa/", NO_NAME),
    # IPv6 in forms that differ
    ("http://[fe80::1%25eth0]/", ZONE),
    ("http://[fe80::1%eth0]/", ZONE),
    ("http://[::1%25]/", ZONE),
    ("http://[127.0.0.1]/", NO_IPV6),
    ("http://[v1.fe80::a]/", NO_IPV6),
    ("http://[::g]/", NO_IPV6),
    ("http://[]/", NO_IPV6),
    ("http://[example.com]/", NO_IPV6),
    ("http://[::ffff:0177.0.0.1]/", NO_IPV6),
    # plain addresses of places that are nobody's business
    ("http://127.0.0.1/", LOOPBACK),
    ("http://127.255.255.254:8080/", LOOPBACK),
    ("https://127.0.0.1./", LOOPBACK),
    ("http://[::1]/", LOOPBACK),
    ("http://[0:0:0:0:0:0:0:1]/", LOOPBACK),
    ("http://[::ffff:127.0.0.1]/", "an IPv4-mapped address"),
    ("http://[::ffff:7f00:1]/", "an IPv4-mapped address"),
    ("http://[::ffff:8.8.8.8]/", "an IPv4-mapped address"),
    ("http://[::127.0.0.1]/", "an IPv4-compatible address"),
    ("http://[::ffff:0:127.0.0.1]/", "a reserved address"),
    ("http://[64:ff9b::7f00:1]/", "a NAT64 of loopback address"),
    ("http://[64:ff9b::169.254.169.254]/", "a NAT64 of cloud metadata address"),
    ("http://[64:ff9b:1::10.0.0.1]/", "a local NAT64 address"),
    ("http://[2002:7f00:1::]/", "a 6to4 address"),
    ("http://[2002:a9fe:a9fe::1]/", "a 6to4 address"),
    ("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "a Teredo address"),
    ("http://[2606:4700::5efe:10.0.0.1]/", "an ISATAP address"),
    ("http://[2606:4700::200:5efe:10.0.0.1]/", "an ISATAP address"),
    ("http://[fe80::5efe:10.0.0.1]/", "a link-local address"),
    ("http://[fe80::1]/", "a link-local address"),
    ("http://[fec0::1]/", "a site-local address"),
    ("http://[fc00::1]/", "a private (unique local) address"),
    ("http://[ff02::1]/", "a multicast address"),
    ("http://[100::1]/", "a discard-only address"),
    ("http://[2001:db8::1]/", "a documentation address"),
    ("http://[::]/", "an unspecified address"),
    ("http://0.0.0.0/", "an unspecified address"),
    ("http://0.1.2.3/", "an unspecified address"),
    ("http://10.1.2.3/", "a private address"),
    ("http://172.31.255.255/", "a private address"),
    ("http://192.168.1.1/", "a private address"),
    ("http://100.64.0.1/", "a carrier-grade NAT address"),
    ("http://169.254.1.1/", "a link-local address"),
    ("http://192.0.0.8/", "a protocol assignment address"),
    ("http://192.88.99.1/", "a 6to4 relay address"),
    ("http://198.18.0.1/", "a benchmarking address"),
    ("http://224.0.0.1/", "a multicast address"),
    ("http://255.255.255.255/", "a reserved address"),
    ("http://169.254.169.254/latest/meta-data/", METADATA),
    ("http://169.254.170.2/v2/credentials", METADATA),
    ("http://100.100.100.200/", METADATA),
    ("http://168.63.129.16/", METADATA),
    ("http://[fd00:ec2::254]/", METADATA),
    # names that say where they lead
    ("http://localhost/", LOOPBACK),
    ("http://LocalHost.:8080/", LOOPBACK),
    ("http://api.localhost/", LOOPBACK),
    ("http://a.b.localhost./", LOOPBACK),
    ("http://localhost.localdomain/", LOOPBACK),
    ("http://ip6-localhost/", LOOPBACK),
    ("http://metadata.google.internal/computeMetadata/v1/", METADATA_NAME),
    ("http://METADATA.google.internal./", METADATA_NAME),
    ("http://metadata/", METADATA_NAME),
    ("http://instance-data/latest/", METADATA_NAME),
    ("http://instance-data.ec2.internal/", METADATA_NAME),
    # ports of other protocols
    ("http://example.com:22/", OTHER_PORT),
    ("http://example.com:25/", OTHER_PORT),
    ("https://example.com:0465/", OTHER_PORT),
    ("http://example.com:2375/containers/json", OTHER_PORT),
    ("http://example.com:6379/", OTHER_PORT),
    ("http://example.com:9200/_search", OTHER_PORT),
    ("http://example.com:11211/", OTHER_PORT),
]


def test_table_is_long_and_has_no_doubles() -> None:
    assert len({url for url, _ in HOSTILE}) == len(HOSTILE) >= 80


@pytest.mark.parametrize(("url", "reason"), HOSTILE)
def test_hostile_urls_are_refused_for_their_reason(url: str, reason: str) -> None:
    refusal = GATE.endpoint(url)
    assert isinstance(refusal, str)
    assert reason in refusal
    assert "secret" not in refusal


ODD = [
    ("HTTP://Example.COM", "http://example.com/", "example.com", 80),
    ("hTTps://example.com", "https://example.com/", "example.com", 443),
    ("https://example.com:443/a?b=c#d", "https://example.com/a?b=c", "example.com", 443),
    ("http://example.com:443/", "http://example.com:443/", "example.com", 443),
    ("https://example.com.:8443?x=1", "https://example.com:8443/?x=1", "example.com", 8443),
    ("http://example.com:/p", "http://example.com/p", "example.com", 80),
    ("http://example.com:00080/p", "http://example.com/p", "example.com", 80),
    ("http://example.com:65535/", "http://example.com:65535/", "example.com", 65535),
    ("http://1.1.1.1:81/p", "http://1.1.1.1:81/p", "1.1.1.1", 81),
    ("http://1.1.1.1.:81/p", "http://1.1.1.1:81/p", "1.1.1.1", 81),
    ("http://[2606:4700::0:1111]:81/", "http://[2606:4700::1111]:81/", "2606:4700::1111", 81),
    ("http://[2606:4700:0:0:0:0:0:1111]/", "http://[2606:4700::1111]/", "2606:4700::1111", 80),
    ("http://[64:ff9b::8.8.8.8]/", "http://[64:ff9b::808:808]/", "64:ff9b::808:808", 80),
    ("http://a_b.example/%41/ü?q=é", "http://a_b.example/%41/%C3%BC?q=%C3%A9", "a_b.example", 80),
    ("http://_dmarc.example/", "http://_dmarc.example/", "_dmarc.example", 80),
    ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example", 80),
    ("http://3com.example/", "http://3com.example/", "3com.example", 80),
    ("http://1.2.3.4.example/", "http://1.2.3.4.example/", "1.2.3.4.example", 80),
    ("http://0x7f.example/", "http://0x7f.example/", "0x7f.example", 80),
    ("http://notlocalhost/", "http://notlocalhost/", "notlocalhost", 80),
    ("http://localhost.example/", "http://localhost.example/", "localhost.example", 80),
    ("http://example.com/@x:y", "http://example.com/@x:y", "example.com", 80),
    ("http://example.com?@127.0.0.1/", "http://example.com/?@127.0.0.1/", "example.com", 80),
    ("http://example.com/?u=http://127.0.0.1/", "http://example.com/?u=http://127.0.0.1/", "example.com", 80),
    ("http://example.com/../../etc", "http://example.com/../../etc", "example.com", 80),
    ("http://example.com//a//b", "http://example.com//a//b", "example.com", 80),
    ("http://example.com/a;b=c/%2e%2e/", "http://example.com/a;b=c/%2e%2e/", "example.com", 80),
    ("http://example.com/{a}[b]^|`'\"<>", "http://example.com/{a}[b]^|`'\"<>", "example.com", 80),
    ("http://example.com/%0d%0aX:1", "http://example.com/%0d%0aX:1", "example.com", 80),
    ("http://example.com/%", "http://example.com/%", "example.com", 80),
    ("http://example.com/#@127.0.0.1/", "http://example.com/", "example.com", 80),
]


@pytest.mark.parametrize(("url", "rebuilt", "host", "port"), ODD)
def test_odd_urls_pass_and_are_rebuilt(url: str, rebuilt: str, host: str, port: int) -> None:
    endpoint = GATE.endpoint(url)
    assert isinstance(endpoint, Endpoint), endpoint
    assert (endpoint.url, endpoint.host, endpoint.port) == (rebuilt, host, port)
    assert_others_agree(endpoint)


_PIECES = st.sampled_from(
    [
        *(
            "http://",
            "https://",
            "HTTP://",
            "//",
            "/",
            "\\",
            ":",
            "@",
            "#",
            "?",
            "%",
            "[",
            "]",
            ".",
            "..",
            "-",
            "_",
        ),
        *(
            "example",
            "com",
            "localhost",
            "127.0.0.1",
            "0x7f",
            "017",
            "1",
            "0",
            "::1",
            "2606:4700::1",
            "%2f",
            "%40",
        ),
        *(
            "80",
            "443",
            "8080",
            "65535",
            "65536",
            "\uff0e",
            "\u3002",
            "①",
            "ü",
            "xn--",
            " ",
            "\t",
            "\r\n",
            "\x00",
            ";",
        ),
        *("&", "=", "user", "pass", "*", "'", '"', "|", "^", "{", "}", "~", "!", "$", ","),
    ]
)
_URLS = st.builds(
    lambda scheme, pieces: scheme + "".join(pieces),
    st.sampled_from(["http://", "https://", "HtTp://"]),
    st.lists(_PIECES | st.text(max_size=3), max_size=12),
)


@given(_URLS)
def test_other_parsers_find_the_same_host_and_port_in_what_is_called(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except EndpointRefused:
        return
    assert parse_endpoint(endpoint.url) == endpoint, "read the same again"
    assert_others_agree(endpoint)


@given(_URLS)
def test_other_parsers_find_the_same_host_in_what_was_written(text: str) -> None:
    """Whoever looks at the stored URL and is not us sees the host that is called."""
    try:
        endpoint = parse_endpoint(text)
    except EndpointRefused:
        return
    written = urlsplit(text)
    assert (written.hostname or "").removesuffix(".").lower() == _as_written(text, endpoint.host)
    assert (written.port or {"http": 80, "https": 443}[written.scheme]) == endpoint.port


def assert_others_agree(endpoint: Endpoint) -> None:
    python = urlsplit(endpoint.url)
    libcurl = pycurl.CurlUrl(endpoint.url)
    default = {"http": 80, "https": 443}[python.scheme]
    assert python.hostname == endpoint.host
    assert (python.port or default) == endpoint.port
    assert (python.username, python.password) == (None, None)
    assert libcurl.scheme == python.scheme
    assert str(libcurl.host).strip("[]") == endpoint.host
    assert int(libcurl.port or default) == endpoint.port
    assert (libcurl.user, libcurl.password, libcurl.zoneid) == (None, None, None)


def _as_written(text: str, host: str) -> str:
    """An address is shortened when it is read; compare it as it stands in the text."""
    written = (urlsplit(text).hostname or "").removesuffix(".").lower()
    return written if ":" in host and parse_endpoint(f"http://[{written}]/").host == host else host
