"""What an egress policy lets a tenant's webhooks call."""

from ipaddress import ip_address

import msgspec
import pytest

from tickwheel.domain.egress import Address, EgressPolicy, Entry, parse_entry

POLICY = EgressPolicy(
    allow=("API.example.com.", "*.hooks.example", "pay.example:8443", "203.0.113.0/24", "[2001:db8::]:443")
)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("api.example.com", 80),
        ("api.example.com", 9000),
        ("a.hooks.example", 443),
        ("a.b.hooks.example", 443),
        ("pay.example", 8443),
        ("203.0.113.9", 80),
        ("2001:db8::", 443),
    ],
)
def test_listed_hosts_may_be_called(host: str, port: int) -> None:
    assert POLICY.refusal(host, port, literal(host)) is None


@pytest.mark.parametrize(
    ("host", "port"), [("203.0.114.9", 80), ("2001:db8::", 80), ("2001:db8::1", 443), ("10.0.0.1", 80)]
)
def test_addresses_that_are_not_listed_may_not_be_called(host: str, port: int) -> None:
    refusal = POLICY.refusal(host, port, literal(host))
    assert refusal is not None
    assert "allow-list of the tenant's egress policy" in refusal


@pytest.mark.parametrize(
    "host",
    ["example.com", "xapi.example.com", "api.example.com.evil.test", "hooks.example", "evilhooks.example"],
)
def test_names_beside_the_list_are_refused_at_once(host: str) -> None:
    policy = EgressPolicy(allow=("api.example.com", "*.hooks.example"))
    assert policy.refusal(host, 443) is not None


def test_name_may_lead_into_a_listed_network_with_all_its_addresses_only() -> None:
    inside, outside = ip_address("203.0.113.1"), ip_address("198.51.100.1")
    assert POLICY.refusal("other.example", 80) is None, "its addresses decide"
    assert POLICY.addresses_refusal("other.example", 80, [inside]) is None
    assert POLICY.addresses_refusal("other.example", 80, [inside, outside]) is not None
    assert POLICY.addresses_refusal("other.example", 80, []) is not None
    assert POLICY.addresses_refusal("api.example.com", 80, [outside]) is None, "its name is listed"


def test_port_of_an_entry_is_the_only_one() -> None:
    policy = EgressPolicy(allow=("pay.example:8443", "10.0.0.0/8:8080"))
    refusal = policy.refusal("pay.example", 443)
    assert refusal == "pay.example:443 is not on the allow-list of the tenant's egress policy on this port"
    assert policy.refusal("other.example", 8080) is None, "its addresses decide"
    assert policy.addresses_refusal("other.example", 443, [ip_address("10.0.0.1")]) is not None


def test_no_list_allows_all_and_an_empty_one_nothing() -> None:
    assert EgressPolicy().refusal("example.com", 443) is None
    assert EgressPolicy(allow=()).refusal("example.com", 443) is not None
    assert EgressPolicy(allow=()).addresses_refusal("example.com", 443, [ip_address("1.1.1.1")]) is not None


def test_what_can_not_be_read_allows_nothing() -> None:
    broken = EgressPolicy(allow=("no host at all", "*"))
    assert broken.refusal("example.com", 443) is not None


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("A.example", Entry(name="a.example")),
        ("*.a.example:80", Entry(name="a.example", below=True, port=80)),
        ("xn--bcher-kva.example", Entry(name="xn--bcher-kva.example")),
    ],
)
def test_entries_are_read(text: str, entry: Entry) -> None:
    assert parse_entry(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.*.example",
        "a.*.example",
        "https://a.example",
        "a.example/path",
        "a.example:0",
        "a.example:65536",
        "a.example:http",
        "10.0.0.7/8",
        "10.0.0",
        "0x7f.1",
        "[a.example]:",
        "[a.example]",
        "bücher.example",
        "user@a.example",
        "a..example",
        "a.example\n",
        "2001:db8::/33x",
        "x" * 400,
    ],
)
def test_faults_name_their_place(text: str) -> None:
    policy = EgressPolicy(
        allow=("good.example", text), allow_private=("10.0.0.0/8", "10.0.0.1/8"), proxy="Not One"
    )
    fields = [problem.field for problem in policy.faults("egress")]
    wanted = ["egress.allow[1]"] if text != "a.example\n" else []  # blanks around are taken off
    assert fields == [*wanted, "egress.allow_private[1]", "egress.proxy"]


def test_good_policy_has_no_faults_and_survives_storage() -> None:
    policy = EgressPolicy(allow=POLICY.allow, allow_private=("10.0.0.0/8", "fd00::/8"), proxy="eu")
    assert policy.faults() == []
    assert msgspec.json.decode(msgspec.json.encode(policy), type=EgressPolicy) == policy
    assert msgspec.json.encode(EgressPolicy()) == b"{}"


def test_misspelt_field_is_no_policy_without_a_list() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"alow":["a.example"]}', type=EgressPolicy)


def literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
