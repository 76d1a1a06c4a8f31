"""A name server that changes its answers: the connection goes to an address that was vetted, or nowhere.

127.0.0.2 stands for a public address (it is the only one that the settings allow), 127.0.0.1 for what must not be
reached. On both there is a receiver with the same port.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_network

import pytest

from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.outcome import OutcomeClass

from .harness import Bench, error_of, make_work
from .name_server import running_name_server
from .sink import Sink, running_sink

PUBLIC, FORBIDDEN = "127.0.0.2", "127.0.0.1"
ATTEMPT_COUNT = 120
NEW_LOOKUP_EACH_TIME = WebhookSettings(
    addresses=AddressPolicy(allow_private=[ip_network(PUBLIC)]), dns_ttl_ms=0, connect_timeout_ms=2_000
)


@asynccontextmanager
async def two_receivers() -> AsyncIterator[tuple[Sink, Sink]]:
    """One that may be called and one that must not, on the same port."""
    async with AsyncExitStack() as stack:
        while True:
            public = await stack.enter_async_context(running_sink(PUBLIC))
            with suppress(OSError):  # somebody has that port on the other address
                forbidden = await stack.enter_async_context(running_sink(FORBIDDEN, port=public.port))
                break
        yield public, forbidden


@pytest.mark.parametrize("path", ["/status/200", "/status/200?Connection=close"])
def test_name_that_is_rebound_is_called_at_vetted_addresses_only(path: str) -> None:
    """Each look-up is answered with the other address; kept-alive connections and new ones behave alike."""

    async def scenario() -> None:
        async with (
            two_receivers() as (public, forbidden),
            running_name_server(lambda number: [(PUBLIC, FORBIDDEN)[number % 2]]) as names,
            Bench(NEW_LOOKUP_EACH_TIME, names.resolve) as bench,
        ):
            for slot in range(ATTEMPT_COUNT):
                outcome = await bench.run(make_work(slot, public.url(path, "rebound.example")))
                assert names.asked == ["rebound.example"] * (slot + 1), "one look-up per attempt, and no second"
                if slot % 2:
                    assert outcome.outcome_class is OutcomeClass.PERMANENT
                    assert "rebound.example resolves to a loopback address" in error_of(outcome)
                else:
                    assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert len(public.received) == ATTEMPT_COUNT / 2
            assert forbidden.connection_count == 0

    asyncio.run(scenario())


def test_crowd_of_attempts_during_a_rebinding_reaches_vetted_addresses_only() -> None:
    async def scenario() -> None:
        async with (
            two_receivers() as (public, forbidden),
            running_name_server(_now_and_then) as names,
            Bench(NEW_LOOKUP_EACH_TIME, names.resolve) as bench,
        ):
            for start in range(0, 600, 60):
                slots = range(start, start + 60)
                url = public.url("/status/200", f"{start % 180}.rebound.example")
                bench.executor.start([make_work(slot, url) for slot in slots])
                await bench.wait_for(*slots)
            classes = [outcome.outcome_class for outcome in bench.outcomes.values()]
            assert set(classes) == {OutcomeClass.SUCCESS, OutcomeClass.PERMANENT}
            assert len(public.received) == classes.count(OutcomeClass.SUCCESS)
            assert forbidden.connection_count == 0

    asyncio.run(scenario())


def _now_and_then(number: int) -> Sequence[str]:
    return [FORBIDDEN if number % 3 == 1 else PUBLIC]


@pytest.mark.parametrize(
    "answer", [[PUBLIC, FORBIDDEN], [FORBIDDEN, PUBLIC], [PUBLIC] * 20 + [FORBIDDEN], [PUBLIC, "10.0.0.1"]]
)
def test_one_bad_address_among_several_refuses_the_name(answer: list[str]) -> None:
    async def scenario() -> None:
        async with (
            two_receivers() as (public, forbidden),
            running_name_server(lambda number: answer) as names,
            Bench(NEW_LOOKUP_EACH_TIME, names.resolve) as bench,
        ):
            for slot in range(5):
                outcome = await bench.run(make_work(slot, public.url("/status/200", "mixed.example")))
                assert outcome.outcome_class is OutcomeClass.PERMANENT
            assert public.connection_count == forbidden.connection_count == 0

    asyncio.run(scenario())


def test_several_good_addresses_are_tried_in_turn_and_no_other() -> None:
    """The second address of the answer takes over when the first does not connect; nobody asks again meanwhile."""

    def choose(number: int) -> Sequence[str]:
        return ["127.0.0.3", PUBLIC] if number == 0 else [FORBIDDEN]

    settings = WebhookSettings(addresses=AddressPolicy(allow_private=[ip_network("127.0.0.2/31")]), dns_ttl_ms=0)

    async def scenario() -> None:
        async with (
            two_receivers() as (public, forbidden),
            running_name_server(choose) as names,
            Bench(settings, names.resolve) as bench,
        ):
            outcome = await bench.run(make_work(1, public.url("/status/200", "two.example")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert names.asked == ["two.example"]
            assert (len(public.received), forbidden.connection_count) == (1, 0)

    asyncio.run(scenario())


def test_the_receiver_that_must_not_be_reached_can_be_reached() -> None:
    """The tests above would see a connection to it."""

    async def scenario() -> None:
        async with (
            two_receivers() as (public, forbidden),
            running_name_server(lambda number: [FORBIDDEN]) as names,
            Bench(resolve=names.resolve) as bench,
        ):
            outcome = await bench.run(make_work(1, public.url("/status/200", "rebound.example")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert (len(forbidden.received), public.connection_count) == (1, 0)

    asyncio.run(scenario())
