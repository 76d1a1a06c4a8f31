"""What one tenant may call opens nothing to another one, and a policy holds from the moment that it changes.

127.0.0.2 stands for a private network that some tenant may reach; receivers there count connections, so that
"refused" means that nothing was sent, no header either.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from tickwheel.adapters.webhook.egress import Gates
from tickwheel.adapters.webhook.endpoint import Endpoint
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.egress_proxy import EgressProxy
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .harness import Bench, error_of, loopback, make_work, wait_until
from .sink import running_sink

NEAR = "127.0.0.2"
MAY = EgressPolicy(allow_private=(NEAR,))
ELSEWHERE = EgressPolicy(allow=("api.example.com",), allow_private=(NEAR,))


def settings_of(policies: dict[str, EgressPolicy], **changes: object) -> WebhookSettings:
    return replace(WebhookSettings(policy_of=policies.get), **changes)  # type: ignore[arg-type]  # free keywords


def near(host: str) -> Sequence[str]:
    return [NEAR]


def assert_refused_by_policy(outcome: Outcome) -> None:
    assert outcome.outcome_class is OutcomeClass.PERMANENT
    assert "allow-list of the tenant's egress policy" in error_of(outcome)


@pytest.mark.parametrize("order", list(permutations(["may", "strict", "nothing"])))
def test_private_address_of_one_tenant_stays_closed_to_others(order: Sequence[str]) -> None:
    """Whoever comes first fills the cache of look-ups, and leaves a connection open."""
    policies = {"may": MAY, "strict": EgressPolicy(allow_private=())}

    async def scenario() -> None:
        async with running_sink(NEAR) as sink, Bench(settings_of(policies), near) as bench:
            for turn, tenant in enumerate([*order, *order]):
                work = make_work(turn, sink.url("/status/200", "inner.example"), tenant_id=tenant)
                outcome = await bench.run(work)
                if tenant == "may":
                    assert outcome.outcome_class is OutcomeClass.SUCCESS
                else:
                    assert outcome.outcome_class is OutcomeClass.PERMANENT
                    where = "setting allow_loopback" if tenant == "nothing" else "the tenant's egress policy"
                    assert where in error_of(outcome)
            assert {request.headers["x-tenant-id"] for request in sink.received} == {"may"}
            assert sink.connection_count == 1

    asyncio.run(scenario())


def test_networks_of_a_tenant_replace_those_of_the_settings() -> None:
    settings = settings_of({"narrow": EgressPolicy(allow_private=("10.0.0.0/8",))}, addresses=loopback().addresses)
    gates = Gates(settings)
    assert isinstance(gates.of("other").endpoint("http://127.0.0.1/"), Endpoint)
    assert isinstance(gates.of("narrow").endpoint("http://10.1.2.3/"), Endpoint)
    refusal = gates.of("narrow").endpoint("http://127.0.0.1/")
    assert isinstance(refusal, str)
    assert "a loopback address (not listed in allow_private of the tenant's egress policy)" in refusal


@pytest.mark.pitfall(103)
@pytest.mark.parametrize("host", ["evil.example", NEAR, "api.example.com.evil.example"])
def test_target_beside_the_allow_list_gets_no_connection(host: str) -> None:
    async def scenario() -> None:
        async with running_sink(NEAR) as witness, Bench(settings_of({"t": ELSEWHERE}), near) as bench:
            work = make_work(
                1, witness.url("/status/200", host), tenant_id="t", headers=(("Authorization", "Bearer s"),)
            )
            assert_refused_by_policy(await bench.run(work))
            assert witness.connection_count == 0

    asyncio.run(scenario())


def test_listed_name_and_name_within_a_listed_network_are_called() -> None:
    policy = EgressPolicy(allow=("api.example.com", f"{NEAR}/32"), allow_private=("127.0.0.0/8",))
    found = {
        "api.example.com": ["127.0.0.3", NEAR],
        "inside.example": [NEAR],
        "mixed.example": [NEAR, "127.0.0.3"],
    }

    async def scenario() -> None:
        async with running_sink(NEAR) as sink, Bench(settings_of({"t": policy}), found.__getitem__) as bench:
            for slot, host in enumerate(("api.example.com", "inside.example")):
                outcome = await bench.run(make_work(slot, sink.url("/status/200", host), tenant_id="t"))
                assert outcome.outcome_class is OutcomeClass.SUCCESS
            mixed = make_work(7, sink.url("/status/200", "mixed.example"), tenant_id="t")
            assert_refused_by_policy(await bench.run(mixed))
            assert len(sink.received) == 2

    asyncio.run(scenario())


def test_narrowed_policy_holds_for_the_next_attempt_although_a_connection_is_open() -> None:
    policies = {"t": MAY}

    async def scenario() -> None:
        async with running_sink(NEAR) as sink, Bench(settings_of(policies), near) as bench:
            first = await bench.run(make_work(1, sink.url("/status/200", "inner.example"), tenant_id="t"))
            assert first.outcome_class is OutcomeClass.SUCCESS
            policies["t"] = ELSEWHERE
            second = make_work(2, sink.url("/status/200", "inner.example"), tenant_id="t")
            assert_refused_by_policy(await bench.run(second))
            policies["t"] = EgressPolicy()
            third = await bench.run(make_work(3, sink.url("/status/200", "inner.example"), tenant_id="t"))
            assert "a loopback address" in error_of(third)
            assert len(sink.received) == 1

    asyncio.run(scenario())


def test_policy_that_narrows_while_an_attempt_waits_for_its_turn_holds_for_it() -> None:
    policies = {"t": MAY}

    async def scenario() -> None:
        settings = settings_of(policies, host_limit_count=1)
        async with running_sink(NEAR) as sink, Bench(settings, near) as bench:
            works = [make_work(slot, sink.url("/gate", "inner.example"), tenant_id="t") for slot in range(2)]
            bench.executor.start(works)
            await wait_until(lambda: sink.received, "the first request")
            policies["t"] = ELSEWHERE
            sink.gate.set()
            went, waited = await bench.wait_for(0, 1)
            assert went.outcome_class is OutcomeClass.SUCCESS
            assert_refused_by_policy(waited)
            assert len(sink.received) == 1

    asyncio.run(scenario())


def test_equal_policies_share_a_gate_and_many_tenants_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwheel.adapters.webhook.egress.GATE_CACHE_COUNT", 8)
    monkeypatch.setattr("tickwheel.adapters.webhook.egress.ENDPOINT_CACHE_COUNT", 8)
    own = {f"t{number}": EgressPolicy(allow=(f"h{number}.example",)) for number in range(100)}
    gates = Gates(
        settings_of({**own, "a": EgressPolicy(allow=("x.example",)), "b": EgressPolicy(allow=("x.example",))})
    )
    assert gates.of("a") is gates.of("b")
    assert gates.of("nobody") is gates.of("somebody") is not gates.of("a")
    for number in range(100):
        gate = gates.of(f"t{number}")
        assert isinstance(gate.endpoint(f"http://h{number}.example/"), Endpoint)
        assert isinstance(gate.endpoint(f"http://h{number + 1}.example/"), str)
    assert len(gates._of_policy) <= 8
    assert len(gates._of_tenant) <= 8
    assert len(gates._endpoints) <= 8


def test_unknown_proxy_holds_attempts_up_and_sends_nothing() -> None:
    policies = {
        "t": EgressPolicy(allow_private=(NEAR,), proxy="eu"),
        "d": EgressPolicy(MAY.allow, (NEAR,), "direct"),
    }
    proxies = {"us": EgressProxy(scheme="http", host="127.0.0.1", port=9)}

    async def scenario() -> None:
        settings = settings_of(policies, proxies=proxies)
        async with running_sink(NEAR) as sink, Bench(settings, near) as bench:
            outcome = await bench.run(make_work(1, sink.url("/status/200", "inner.example"), tenant_id="t"))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.unsent, "other tenants' webhooks to that host have no part in it"
            assert error_of(outcome) == "the proxy 'eu' of the tenant's egress policy is not set up here"
            assert sink.connection_count == 0
            direct = await bench.run(make_work(2, sink.url("/status/200", "inner.example"), tenant_id="d"))
            assert direct.outcome_class is OutcomeClass.SUCCESS

    asyncio.run(scenario())
