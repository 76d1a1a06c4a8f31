import pytest

from tickwheel.adapters.redis.address import Place, read_address
from tickwheel.domain.errors import ConfigError


def test_one_server() -> None:
    address = read_address("redis://app:p%40ss@cache.example:6380/3", setting="queue")
    assert address.places == (Place("cache.example", 6380),)
    assert address.options == {"db": 3, "username": "app", "password": "p@ss"}
    assert not address.is_cluster
    assert address.described == "redis://cache.example:6380"


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("redis://localhost", [("localhost", 6379)]),
        ("redis://[::1]:7000", [("::1", 7000)]),
        ("redis+cluster://a,b:7001", [("a", 6379), ("b", 7001)]),
    ],
)
def test_hosts_and_ports(url: str, places: list[tuple[str, int]]) -> None:
    assert read_address(url, setting="queue").places == tuple(Place(*place) for place in places)


def test_a_password_needs_no_user() -> None:
    assert read_address("redis://:word@h", setting="queue").options["username"] is None


def test_tls_is_spoken_with_given_files() -> None:
    address = read_address("rediss+cluster://h?ca=ca.pem&cert=c.pem&key=k.pem", setting="queue")
    assert address.tls
    assert address.is_cluster
    assert address.options["ssl_ca_certs"] == "ca.pem"
    assert (address.cert_file, address.key_file) == ("c.pem", "k.pem")


def test_no_secret_is_shown() -> None:
    address = read_address("rediss://app:s3cret@h?key=private.pem", setting="queue")
    assert "s3cret" not in repr(address) + address.described
    assert "private" not in repr(address)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis:h", "no address of a Redis"),
        ("redis://", "a host is missing"),
        ("redis://h:99999", "the port of h"),
        ("redis://h:port", "the port of h"),
        ("redis://a,b", "redis+cluster:// only"),
        ("redis://h/two", "number of a database"),
        ("redis+cluster://h/2", "no numbered databases"),
        ("redis://h?ca=x", "only make sense with rediss://"),
        ("rediss://h?verify=no", "there is no option 'verify'"),
        ("redis://s3cret@h", "a user needs a password"),
        ("redis://u:s3cret@h:x", "the port of h"),
    ],
)
def test_what_can_not_be_understood_is_told_without_secrets(url: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_address(url, setting="queue")
    [problem] = caught.value.problems
    assert problem.field == "queue"
    assert told in problem.message
    assert "expected redis://USER:PASSWORD@HOST" in problem.message
    assert "s3cret" not in problem.message
