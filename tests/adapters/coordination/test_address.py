import pytest

from tickwheel.adapters.coordination.address import Address, read_address
from tickwheel.domain.errors import ConfigError


def read(url: str, cluster: str = "") -> Address:
    return read_address(url, scheme="etcd", port=2379, cluster=cluster)


def test_several_servers_share_a_url() -> None:
    address = read("etcd://h1:1,h2,[::1]:3,[fe80::1]")
    assert address.servers == ("h1:1", "h2:2379", "[::1]:3", "[fe80::1]:2379")
    assert address.base_urls[0] == "http://h1:1"


def test_clusters_on_one_server_have_keys_of_their_own() -> None:
    assert read("etcd://h").prefix == "tickwheel/"
    assert read("etcd://h", "blue").prefix == "tickwheel/blue/"
    assert read("etcd://h/jobs/", "blue").prefix == "jobs/blue/"


def test_tls_comes_with_its_files() -> None:
    address = read("etcds://h?ca=/a.pem&cert=/b.pem&key=/c.pem")
    assert (address.ca_file, address.cert_file, address.key_file) == ("/a.pem", "/b.pem", "/c.pem")
    assert address.base_urls == ("https://h:2379",)


def test_secrets_are_not_shown() -> None:
    address = read("etcd://me:p%40ss@h1,h2")
    assert (address.user, address.password) == ("me", "p@ss")
    for shown in (repr(address), address.described):
        assert "p@ss" not in shown
        assert "p%40ss" not in shown


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("etcd://", "a host is missing"),
        ("etcd://h1,,h2", "a host is missing"),
        ("etcd://u:secret@h:99999", "the port of h is no number from 1 to 65535"),
        ("etcd://u:secret@h:port", "the port of h is no number"),
        ("redis://u:secret@h", "expected etcd://host:2379"),
        ("etcd://u:secret@h?ca=x", "ca only make sense with etcds://"),
        ("etcds://u:secret@h?cafile=x", "there is no option 'cafile'"),
        ("etcd://u:secret@[::1", "expected etcd://host:2379"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_its_secret(url: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(url)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)
