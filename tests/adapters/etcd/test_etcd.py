"""What is special about etcd: leases, users, TLS, members that hang. Real servers."""

import base64
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tickwheel.adapters.coordination.keys import FLEETING_S, RENEW_MS, Refused
from tickwheel.adapters.etcd import open_etcd_coordinator
from tickwheel.ports.coordinator import Beat, Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

# The servers of tests are not installed, so they have no absolute name.
from ...servers.etcd import EtcdCluster, EtcdServer, shared_etcd

_numbers = count(1)
open_patiently = partial(open_etcd_coordinator, try_ms=10_000)  # on a busy machine hashing a password takes long


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def prefix() -> str:
    return f"alone-{next(_numbers)}"


@pytest.fixture
async def coordinator(clock: VirtualClock, prefix: str) -> AsyncIterator[Coordinator]:
    async with aclosing(open_patiently(f"{shared_etcd().url}/{prefix}", clock)) as coordinator:
        yield coordinator


def lease_of(server: EtcdServer, key: str) -> str:
    answer = server.ask("/v3/kv/range", {"key": base64.b64encode(key.encode()).decode()})
    return str(answer["kvs"][0]["lease"])


async def test_beats_have_a_long_lease_that_is_renewed(
    coordinator: Coordinator, clock: VirtualClock, prefix: str
) -> None:
    await coordinator.beat("a", 1, b"")
    server = shared_etcd().servers[0]
    lease = lease_of(server, f"{prefix}/members/a")
    assert int(server.ask("/v3/lease/timetolive", {"ID": lease})["grantedTTL"]) == FLEETING_S
    clock.step_ms(RENEW_MS)
    await coordinator.beat("a", 2, b"")
    assert lease_of(server, f"{prefix}/members/a") == lease


async def test_a_beat_comes_back_after_its_lease_ended(
    coordinator: Coordinator, clock: VirtualClock, prefix: str
) -> None:
    await coordinator.beat("a", 1, b"")
    server = shared_etcd().servers[0]
    for wait_ms in (0, RENEW_MS):  # found out by the write, and by the renewal
        server.ask("/v3/lease/revoke", {"ID": lease_of(server, f"{prefix}/members/a")})
        assert await coordinator.members() == {}
        clock.step_ms(wait_ms)
        counter = 2 + wait_ms
        await coordinator.beat("a", counter, b"")
        assert await coordinator.members() == {"a": Beat(counter, b"")}


async def test_a_lock_has_no_lease(coordinator: Coordinator, prefix: str) -> None:
    await coordinator.beat("a", 1, b"")
    await coordinator.acquire_lock("sweep", "a")
    key = base64.b64encode(f"{prefix}/locks/sweep".encode()).decode()
    assert "lease" not in shared_etcd().servers[0].ask("/v3/kv/range", {"key": key})["kvs"][0]


async def test_nobody_there_is_a_lost_connection(clock: VirtualClock) -> None:
    async with aclosing(open_patiently("etcd://127.0.0.1:9", clock)) as coordinator:
        with pytest.raises(ConnectionError, match=r"etcd://127.0.0.1:9 can't be reached"):
            await coordinator.members()


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdCluster]:
    """An etcd with users: root, and `tick`, who may write below tickwheel/ only."""
    with EtcdCluster() as cluster:
        server = cluster.servers[0]
        first, end = (base64.b64encode(key).decode() for key in (b"tickwheel/", b"tickwheel0"))
        permission = {"permType": "READWRITE", "key": first, "range_end": end}
        server.ask("/v3/auth/user/add", {"name": "root", "password": "r00t"})
        server.ask("/v3/auth/role/add", {"name": "root"})
        server.ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
        server.ask("/v3/auth/user/add", {"name": "tick", "password": "sesame"})
        server.ask("/v3/auth/role/add", {"name": "jobs"})
        server.ask("/v3/auth/role/grant", {"name": "jobs", "perm": permission})
        server.ask("/v3/auth/user/grant", {"user": "tick", "role": "jobs"})
        server.ask("/v3/auth/enable", {})
        yield cluster


async def test_a_user_from_the_url_or_the_environment(guarded: EtcdCluster, clock: VirtualClock) -> None:
    url = guarded.url
    async with aclosing(open_patiently(url.replace("://", "://tick:sesame@"), clock)) as from_url:
        await from_url.beat("a", 1, b"")
        environ = {"ETCDCTL_USER": "tick:sesame"}
        async with aclosing(open_patiently(url, clock, environ=environ)) as from_environment:
            assert await from_environment.members() == {"a": Beat(1, b"")}


async def test_tokens_are_fetched_again_after_the_server_restarted(
    guarded: EtcdCluster, clock: VirtualClock
) -> None:
    url = guarded.url.replace("://", "://tick:sesame@") + "/tickwheel/again"
    async with aclosing(open_patiently(url, clock)) as coordinator:
        await coordinator.beat("a", 1, b"")
        guarded.servers[0].kill()
        guarded.servers[0].start()
        await wait_until_answered(coordinator)
        await coordinator.beat("a", 2, b"")
        assert await coordinator.members() == {"a": Beat(2, b"")}


@pytest.mark.parametrize(
    ("credentials", "path", "told"),
    [
        ("", "", "user name is empty"),
        ("tick:salami@", "", "invalid user ID or password"),
        ("tick:sesame@", "/else", "denied"),
    ],
)
async def test_wrong_credentials_are_refused_and_not_shown(
    guarded: EtcdCluster, clock: VirtualClock, credentials: str, path: str, told: str
) -> None:
    url = guarded.url.replace("://", f"://{credentials}") + path
    async with aclosing(open_patiently(url, clock)) as coordinator:
        with pytest.raises(Refused, match=told) as caught:
            await coordinator.beat("a", 1, b"")
        for secret in ("salami", "sesame"):
            assert secret not in str(caught.value)


async def test_tls(tmp_path: Path, clock: VirtualClock) -> None:
    """The server shows a certificate that the given CA signed, and asks for one of ours."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=etcd"
    make += " -addext subjectAltName=IP:127.0.0.1 -addext extendedKeyUsage=serverAuth,clientAuth"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *files], check=True, capture_output=True)
    with EtcdCluster(certificate=certificate, key=key) as cluster:
        url = cluster.url.replace("etcd://", "etcds://")
        mine = f"?ca={certificate}&cert={certificate}&key={key}"
        async with aclosing(open_patiently(url + mine, clock)) as coordinator:
            await coordinator.beat("a", 1, b"")
            assert await coordinator.members() == {"a": Beat(1, b"")}
        async with aclosing(open_patiently(f"{url}?ca={certificate}", clock)) as anonymous:
            with pytest.raises(ConnectionError):
                await anonymous.members()
        async with aclosing(open_patiently(url, clock)) as distrustful:
            with pytest.raises(ConnectionError):
                await distrustful.members()


async def wait_until_answered(coordinator: Coordinator, tries: int = 200) -> None:
    """Each try is bounded and fails at once where nobody listens."""
    for _ in range(tries):
        try:
            await coordinator.members()
        except ConnectionError:
            continue
        return
    raise AssertionError("etcd did not come back")
