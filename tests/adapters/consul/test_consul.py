"""What is special about Consul, tried against `FakeConsul`: sessions, tokens, agents without a leader."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial

import pytest

from tickwheel.adapters.consul import open_consul_coordinator
from tickwheel.adapters.coordination.keys import FLEETING_S, RENEW_MS, Refused
from tickwheel.ports.coordinator import Beat, Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

from ...servers.fake_consul import FakeConsul

open_patiently = partial(open_consul_coordinator, try_ms=10_000)


@pytest.fixture
def consul() -> Iterator[FakeConsul]:
    with FakeConsul() as consul:
        yield consul


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def coordinator(consul: FakeConsul, clock: VirtualClock) -> AsyncIterator[Coordinator]:
    async with aclosing(open_patiently(consul.url, clock)) as coordinator:
        yield coordinator


async def test_a_beat_goes_away_with_its_session_and_comes_back_with_the_next_one(
    consul: FakeConsul, coordinator: Coordinator
) -> None:
    await coordinator.beat("a", 1, b"")
    consul.expire_sessions()
    assert await coordinator.members() == {}
    await coordinator.beat("a", 2, b"")
    assert await coordinator.members() == {"a": Beat(2, b"")}
    await coordinator.beat("a", 3, b"")
    assert await coordinator.members() == {"a": Beat(3, b"")}


async def test_the_session_is_renewed_in_time(
    consul: FakeConsul, coordinator: Coordinator, clock: VirtualClock
) -> None:
    await coordinator.beat("a", 1, b"")
    clock.step_ms(RENEW_MS)
    assert RENEW_MS < FLEETING_S * 1000
    await coordinator.beat("a", 2, b"")
    assert [request for request in consul.requests if "/session/renew/" in request]
    assert len(consul.state.sessions) == 1


async def test_a_session_that_ended_unseen_is_replaced_when_it_would_be_renewed(
    consul: FakeConsul, coordinator: Coordinator, clock: VirtualClock
) -> None:
    await coordinator.beat("a", 1, b"")
    consul.expire_sessions()
    clock.step_ms(RENEW_MS)
    await coordinator.beat("a", 2, b"")
    assert len(consul.state.sessions) == 1
    assert await coordinator.members() == {"a": Beat(2, b"")}


async def test_a_lock_does_not_go_away_with_the_session(consul: FakeConsul, coordinator: Coordinator) -> None:
    """Its life is its holder's beats; the session only sweeps up."""
    await coordinator.beat("a", 1, b"")
    token = await coordinator.acquire_lock("sweep", "a")
    await coordinator.beat("a", 2, b"")
    assert await coordinator.acquire_lock("sweep", "a") == token


async def test_no_leader_is_a_lost_connection(consul: FakeConsul, coordinator: Coordinator) -> None:
    consul.has_leader = False
    with pytest.raises(ConnectionError, match="No cluster leader"):
        await coordinator.members()
    consul.has_leader = True
    assert await coordinator.members() == {}


async def test_another_agent_is_asked_when_one_has_no_leader(clock: VirtualClock) -> None:
    with FakeConsul() as bad, FakeConsul() as good:
        bad.has_leader = False
        async with aclosing(open_patiently(f"{bad.url},{good.server}", clock)) as coordinator:
            await coordinator.beat("a", 1, b"")
            asked = len(bad.requests)
            assert await coordinator.members() == {"a": Beat(1, b"")}
            assert len(bad.requests) == asked == 1


async def test_the_token_is_sent_and_never_shown(clock: VirtualClock) -> None:
    with FakeConsul("sesame") as consul:
        environ = {"CONSUL_HTTP_TOKEN": "sesame"}
        async with aclosing(open_patiently(consul.url, clock, environ=environ)) as right:
            assert await right.members() == {}
        async with aclosing(open_patiently(f"consul://:salami@{consul.server}", clock)) as wrong:
            with pytest.raises(Refused, match="Permission denied") as caught:
                await wrong.members()
            assert "salami" not in str(caught.value)


async def test_nobody_there_is_a_lost_connection(clock: VirtualClock) -> None:
    async with aclosing(open_patiently("consul://127.0.0.1:9", clock)) as coordinator:
        with pytest.raises(ConnectionError, match=r"consul://127.0.0.1:9 can't be reached"):
            await coordinator.beat("a", 1, b"")
