"""Webhooks that go out through a proxy: it gets vetted addresses, and nothing of the request."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.egress_proxy import EgressProxy
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .harness import Bench, allowing, error_of, loopback, make_work
from .proxies import Proxy, running_proxy
from .sink import running_sink
from .test_tls import CERTIFICATE, TLS, server_context

SECRET = "s3cret-w0rd"
NO_NAME = "x" * 64 + ".invalid"
"""Too long a label: no name server is asked."""
AUTHORIZATION = (("Authorization", "Bearer t0ken"),)


def through(proxy: Proxy, scheme: str = "http", **changes: object) -> EgressProxy:
    arguments: dict[str, object] = {"scheme": scheme, "host": "127.0.0.1", "port": proxy.port, **changes}
    return EgressProxy(**arguments)  # type: ignore[arg-type]  # free keywords


def near(host: str) -> Sequence[str]:
    return ["127.0.0.1"]


def nobody(host: str) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up here")


def assert_no_secret(outcome: Outcome) -> None:
    assert SECRET not in repr(outcome)


@pytest.mark.parametrize(("kind", "scheme"), [("http", "http"), ("socks5", "socks5")])
def test_tunnel_leads_to_the_vetted_address_and_the_request_names_the_host(kind: str, scheme: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy(kind) as proxy:
            settings = loopback(proxies={"": through(proxy, scheme, user="us:er", password=SECRET)})
            async with Bench(settings, near) as bench:
                for slot in range(3):
                    work = make_work(slot, sink.url("/status/200", "hook.example"), headers=AUTHORIZATION)
                    assert (await bench.run(work)).outcome_class is OutcomeClass.SUCCESS
                fresh = await bench.run(make_work(9, sink.url("/status/503", "other.example")))
                assert fresh.retry_after_ms is None, "a header of the proxy's is none of the answer's"
            assert proxy.places == [f"127.0.0.1:{sink.port}"] * 2, "one tunnel per name, kept alive"
            assert proxy.users == [f"us:er:{SECRET}"] * 2
            assert sink.received[0].headers["host"] == f"hook.example:{sink.port}"
            assert sink.received[0].headers["authorization"] == "Bearer t0ken"
            assert not {"proxy-authorization", "proxy-connection"} & sink.received[0].headers.keys()
            told = b"".join(proxy.heads).lower()
            for private in (b"hook.example", b"t0ken", b"webhook-id", b"x-tenant-id"):
                assert private not in told

    asyncio.run(scenario())


def test_certificate_of_the_name_is_checked_through_the_tunnel() -> None:
    named: list[str | None] = []
    context = server_context()
    context.sni_callback = lambda _socket, name, _context: named.append(name)

    async def scenario(host: str) -> tuple[Outcome, int]:
        async with running_sink(tls=context) as sink, running_proxy() as proxy:
            settings = loopback(proxies={"": through(proxy)}, ca_file=str(CERTIFICATE))
            async with Bench(settings, near) as bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", host)))
            assert proxy.places == [f"127.0.0.1:{sink.port}"]
            return outcome, len(sink.received)

    good, received_count = asyncio.run(scenario("hook.example"))
    assert (good.outcome_class, received_count) == (OutcomeClass.SUCCESS, 1)
    bad, received_count = asyncio.run(scenario("other.example"))
    assert (bad.outcome_class, received_count) == (OutcomeClass.RETRYABLE, 0)
    assert error_of(bad) == "through the egress proxy: the TLS certificate could not be verified"
    assert named == ["hook.example", "other.example"]


def test_proxy_over_tls_has_to_prove_itself(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.cert.pem", TLS / "loopback.key.pem")

    async def scenario(ca_file: Path) -> tuple[Outcome, Proxy]:
        async with running_sink() as sink, running_proxy(tls=context) as proxy:
            proxies = {"": through(proxy, "https", user="user", password=SECRET)}
            async with Bench(loopback(proxies=proxies, ca_file=str(ca_file)), near) as bench:
                return await bench.run(make_work(1, sink.url("/status/200", "hook.example"))), proxy

    good, _ = asyncio.run(scenario(TLS / "loopback.cert.pem"))
    assert good.outcome_class is OutcomeClass.SUCCESS
    bad, proxy = asyncio.run(scenario(CERTIFICATE))
    assert bad.outcome_class is OutcomeClass.RETRYABLE
    assert error_of(bad) == "through the egress proxy: the TLS certificate could not be verified"
    assert not proxy.users, "no password for a stranger"
    assert_no_secret(bad)


@pytest.mark.parametrize(
    ("kind", "answer", "text"),
    [
        ("http", b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n", "407"),
        ("http", b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "403"),
        ("http", b"HTTP/1.1 503 No\r\nRetry-After: 3000\r\nContent-Length: 5\r\n\r\nsorry", "503"),
        ("http", b"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "302"),
        ("http", b"", "through the egress proxy: it closed the connection"),
        ("http", b"nonsense\r\n\r\n", "through the egress proxy: the answer is not HTTP"),
        ("socks5", b"\x05\x02\x00\x01" + bytes(6), "through the egress proxy: it made no connection"),
        ("socks5", b"", "through the egress proxy: it made no connection"),
    ],
)
def test_proxy_that_makes_no_tunnel_is_a_passing_failure(kind: str, answer: bytes, text: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy(kind) as proxy:
            proxy.answers = [answer]
            proxies = {"": through(proxy, kind, user="user", password=SECRET)}
            async with Bench(loopback(proxies=proxies), near) as bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
                assert outcome.outcome_class is OutcomeClass.RETRYABLE
                assert text in error_of(outcome)
                assert "egress proxy" in error_of(outcome)
                assert (outcome.http_status, outcome.retry_after_ms, outcome.excerpt) == (0, None, None)
                assert_no_secret(outcome)
                assert sink.connection_count == 0
                assert (await bench.run(make_work(2, sink.url("/status/200", "hook.example")))).http_status == 200

    asyncio.run(scenario())


def test_proxy_that_can_not_be_reached_is_a_passing_failure() -> None:
    async def scenario() -> None:
        async with running_proxy() as proxy:
            gone = through(proxy, user="user", password=SECRET)
        unknown = EgressProxy(scheme="http", host=NO_NAME, port=1, user="user", password=SECRET)
        async with running_sink() as sink:
            for proxied, text in (
                (gone, "the connection was refused"),
                (unknown, "its name could not be resolved"),
            ):
                async with Bench(loopback(proxies={"": proxied}), near) as bench:
                    outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
                    assert outcome.outcome_class is OutcomeClass.RETRYABLE
                    assert error_of(outcome) == f"through the egress proxy: {text}"
                    assert_no_secret(outcome)
            assert sink.connection_count == 0

    asyncio.run(scenario())


def test_silent_proxy_times_out() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy() as proxy:
            proxy.silent = True
            settings = loopback(proxies={"": through(proxy)}, connect_timeout_ms=300)
            async with Bench(settings, near) as bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
                assert outcome.outcome_class is OutcomeClass.TIMEOUT
                assert error_of(outcome) == "no connection through the egress proxy within 300 ms"
            assert sink.connection_count == 0

    asyncio.run(scenario())


def test_next_address_is_asked_for_when_the_proxy_can_not_reach_one() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy() as proxy:
            proxy.answers = [b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"]
            settings = loopback(proxies={"": through(proxy)})
            async with Bench(settings, lambda host: ["127.0.0.9", "127.0.0.1"]) as bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
                assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert proxy.places == [f"127.0.0.9:{sink.port}", f"127.0.0.1:{sink.port}"]

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["inner.example", "127.0.0.1", "localhost", "metadata.google.internal"])
def test_proxy_is_not_asked_for_what_the_guard_refuses(host: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy() as proxy:
            settings = WebhookSettings(proxies={"": through(proxy)})
            async with Bench(settings, near) as bench:
                outcome = await bench.run(make_work(1, sink.url("/status/200", host)))
                assert outcome.outcome_class is OutcomeClass.PERMANENT
            assert (proxy.connection_count, sink.connection_count) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_proxy_that_resolves_gets_names_that_nobody_looks_up_here(kind: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy(kind) as proxy:
            proxy.hosts["hook.example"] = "127.0.0.1"
            policies = {
                "listed": EgressPolicy(allow=("hook.example", "127.0.0.0/8")),
                "by network": EgressPolicy(allow=("127.0.0.0/8",), allow_private=("127.0.0.0/8",)),
            }
            settings = WebhookSettings(proxies={"": through(proxy, kind, resolves=True)}, policy_of=policies.get)
            async with Bench(settings, nobody) as bench:
                url = sink.url("/status/200", "hook.example")
                good = await bench.run(make_work(1, url, tenant_id="listed"))
                assert good.outcome_class is OutcomeClass.SUCCESS
                assert (await bench.run(make_work(2, url))).outcome_class is OutcomeClass.SUCCESS, "no list"
                assert proxy.places == [f"hook.example:{sink.port}"]
                unknown = await bench.run(make_work(3, url, tenant_id="by network"))
                assert unknown.outcome_class is OutcomeClass.PERMANENT, "its addresses are not known here"
                assert "allow-list" in error_of(unknown)
                for slot, host in enumerate(("127.0.0.1", "localhost", "metadata.google.internal"), 4):
                    refused = await bench.run(make_work(slot, sink.url("/status/200", host), tenant_id="listed"))
                    assert refused.outcome_class is OutcomeClass.PERMANENT
            assert len(proxy.places) == 1

    asyncio.run(scenario())


def test_tenants_share_no_connection_unless_they_share_the_way() -> None:
    """Same host, same address, same proxy; what differs is the credentials, the resolving, or going direct."""

    async def scenario() -> None:
        async with running_sink() as sink, running_proxy() as proxy, running_proxy() as other:
            proxy.hosts["hook.example"] = "127.0.0.1"
            proxies = {
                "": through(proxy),
                "a": through(proxy, user="a", password="1"),
                "b": through(proxy, user="b", password="2"),
                "a2": through(proxy, user="a", password="2"),
                "names": through(proxy, resolves=True),
                "other": through(other),
            }
            policies = {name: EgressPolicy(proxy=name) for name in (*proxies, "direct") if name}
            settings = loopback(proxies=proxies, policy_of=policies.get)
            async with Bench(settings, near) as bench:
                ways = ["default", *policies]
                for turn, way in enumerate([*ways, *ways, *reversed(ways)]):
                    outcome = await bench.run(
                        make_work(turn, sink.url("/status/200", "hook.example"), tenant_id=way)
                    )
                    assert outcome.outcome_class is OutcomeClass.SUCCESS
            connections: dict[int, set[str]] = {}
            for request in sink.received:
                connections.setdefault(request.connection, set()).add(request.headers["x-tenant-id"])
            assert sorted(map(sorted, connections.values())) == sorted([way] for way in ways)
            assert proxy.users == ["", "a:1", "b:2", "a:2", ""]
            assert (proxy.places[-1], other.users) == (f"hook.example:{sink.port}", [""])

    asyncio.run(scenario())


def test_name_that_moves_gets_a_tunnel_of_its_own() -> None:
    answers = [["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"]]

    async def scenario() -> None:
        async with running_sink("0.0.0.0") as sink, running_proxy() as proxy:
            settings = loopback(proxies={"": through(proxy)}, dns_ttl_ms=0)
            async with Bench(settings, lambda host: answers.pop(0)) as bench:
                classes = [
                    (await bench.run(make_work(slot, sink.url("/status/200", "hook.example")))).outcome_class
                    for slot in range(3)
                ]
            assert classes == [OutcomeClass.SUCCESS, OutcomeClass.SUCCESS, OutcomeClass.PERMANENT]
            assert proxy.places == [f"127.0.0.1:{sink.port}", f"127.0.0.2:{sink.port}"]

    asyncio.run(scenario())


def test_environment_turns_no_proxy_off_or_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, running_proxy() as proxy, running_proxy() as foreign:
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.setenv(name, "*")
            async with Bench(loopback(proxies={"": through(proxy)}), near) as bench:
                await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
            assert len(proxy.places) == 1
            for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{foreign.port}")
                monkeypatch.delenv("no_proxy", raising=False)
                monkeypatch.delenv("NO_PROXY", raising=False)
            async with Bench(allowing("127.0.0.1"), near) as bench:
                await bench.run(make_work(2, sink.url("/status/200", "hook.example")))
            assert len(sink.received) == 2
            assert foreign.connection_count == 0

    asyncio.run(scenario())
