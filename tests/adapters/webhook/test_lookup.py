"""Names to addresses: vetted, pinned, cached, and never waited for too long."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tickwheel.adapters.webhook import lookup
from tickwheel.domain.outcome import OutcomeClass

from .harness import Bench, allowing, error_of, loopback, make_work, run_id, wait_until
from .sink import running_sink


class Names:
    """A resolver that gives one prepared answer after the other (the last one for ever)."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_name_is_called_at_its_address_with_its_own_host_header() -> None:
    async def scenario() -> None:
        names = Names(["127.0.0.1"])
        async with running_sink() as sink, Bench(resolve=names) as bench:
            outcome = await bench.run(make_work(1, sink.url("/status/200", "Hook.Example.")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert sink.received[0].headers["host"] == f"hook.example:{sink.port}"
            assert names.asked == ["hook.example"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (["10.0.0.7"], "private"),
        (["169.254.169.254"], "metadata"),
        (["127.0.0.1", "192.168.0.1"], "private"),  # one bad address spoils the rest
        (["::1", "fe80::1%eth0"], "zone"),
        (["::ffff:127.0.0.1"], "IPv4-mapped"),
    ],
)
def test_every_resolved_address_is_vetted(answer: list[str], name: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench(resolve=Names(answer)) as bench:
            outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
            assert outcome.outcome_class is OutcomeClass.PERMANENT
            assert "hook.example resolves to" in error_of(outcome)
            assert name in error_of(outcome)
            assert "allow_private" in error_of(outcome)
            assert not sink.received

    asyncio.run(scenario())


def test_localhost_is_refused_by_default() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench(allowing()) as bench:
            for slot, host in enumerate(("localhost", "LOCALHOST.", "127.0.0.1")):
                outcome = await bench.run(make_work(slot, sink.url("/status/200", host)))
                assert outcome.outcome_class is OutcomeClass.PERMANENT
                assert "loopback" in error_of(outcome)
                assert "allow_loopback" in error_of(outcome)
            assert not sink.received

    asyncio.run(scenario())


def test_rebound_name_is_not_called_at_its_second_address() -> None:
    """The name is looked up once per request, and the request goes to the address that was vetted."""

    async def scenario() -> None:
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        async with running_sink() as sink, Bench(allowing("127.0.0.1"), names) as bench:
            for slot in range(3):
                outcome = await bench.run(make_work(slot, sink.url("/status/200", "hook.example")))
                assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert names.asked == ["hook.example"]

    asyncio.run(scenario())


def test_kept_alive_connection_does_not_outlive_its_vetting() -> None:
    """After the answer expired, the name points elsewhere: the open connection is not used any more."""

    async def scenario() -> None:
        names = Names(["127.0.0.1"], ["10.0.0.1"])
        async with running_sink() as sink, Bench(loopback(dns_ttl_ms=50), names) as bench:
            first = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
            await asyncio.sleep(0.1)
            second = await bench.run(make_work(2, sink.url("/status/200", "hook.example")))
            assert first.outcome_class is OutcomeClass.SUCCESS
            assert second.outcome_class is OutcomeClass.PERMANENT
            assert len(sink.received) == 1

    asyncio.run(scenario())


def test_connection_to_another_address_of_the_same_name_is_not_reused() -> None:
    async def scenario() -> None:
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        async with running_sink("0.0.0.0") as sink, Bench(loopback(dns_ttl_ms=50), names) as bench:
            await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
            await asyncio.sleep(0.1)
            outcome = await bench.run(make_work(2, sink.url("/status/200", "hook.example")))
            assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert [request.connection for request in sink.received] == [1, 2]

    asyncio.run(scenario())


def test_next_address_is_tried_when_one_does_not_connect() -> None:
    async def scenario() -> None:
        names = Names(["127.0.0.9", "127.0.0.1"])
        async with running_sink() as sink, Bench(resolve=names) as bench:
            for slot in range(2):
                outcome = await bench.run(make_work(slot, sink.url("/status/200", "hook.example")))
                assert outcome.outcome_class is OutcomeClass.SUCCESS
            assert len(sink.received) == 2

    asyncio.run(scenario())


def test_all_addresses_refusing_is_one_failure() -> None:
    async def scenario() -> None:
        names = Names(["127.0.0.8", "127.0.0.9"])
        async with running_sink() as sink, Bench(resolve=names) as bench:
            outcome = await bench.run(make_work(1, sink.url("/status/200", "hook.example")))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.error == "the connection was refused"

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [OSError("no"), UnicodeError("label")])
def test_unknown_name_may_be_retried(error: Exception) -> None:
    def resolve(host: str) -> Sequence[str]:
        raise error

    async def scenario() -> None:
        async with Bench(resolve=resolve) as bench:
            outcome = await bench.run(make_work(1, "http://nowhere.example/"))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.error == "the name nowhere.example could not be resolved"

    asyncio.run(scenario())


def test_one_question_serves_all_that_wait_for_it() -> None:
    async def scenario() -> None:
        names = Names(["127.0.0.1"])
        async with running_sink() as sink, Bench(resolve=names) as bench:
            bench.executor.start([make_work(slot, sink.url("/status/200", "a.example")) for slot in range(20)])
            outcomes = await bench.wait_for(*range(20))
            assert {outcome.outcome_class for outcome in outcomes} == {OutcomeClass.SUCCESS}
            assert names.asked == ["a.example"]

    asyncio.run(scenario())


def test_stuck_name_server_holds_up_nobody_else() -> None:
    release = threading.Event()

    def resolve(host: str) -> Sequence[str]:
        if host.startswith("stuck"):
            release.wait(50)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with running_sink() as sink, Bench(resolve=resolve) as bench:
            hasty = make_work(1, sink.url("/status/200", "stuck-1.example"), timeout_ms=200)
            patient = make_work(2, sink.url("/status/200", "stuck-2.example"))
            bench.executor.start([hasty, patient])
            ok = await bench.run(make_work(3, sink.url("/status/200", "fine.example")))
            assert ok.outcome_class is OutcomeClass.SUCCESS
            assert 2 not in bench.outcomes
            (late,) = await bench.wait_for(1)
            assert late.outcome_class is OutcomeClass.TIMEOUT
            assert late.error == "the name did not resolve within 200 ms"
            release.set()
            (answered,) = await bench.wait_for(2)
            assert answered.outcome_class is OutcomeClass.SUCCESS
            assert [request.run_id for request in sink.received] == [run_id(3), run_id(2)]

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_names_of_one_tenant_that_never_resolve_leave_threads_to_others() -> None:
    """A zone with a name server that does not answer, and a new name below it for each run."""
    release = threading.Event()
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        if host.startswith("stuck"):
            release.wait(50)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with running_sink() as sink, Bench(resolve=resolve) as bench:

            def flood(first: int, tenant_id: str) -> None:
                slots = range(first, first + 200)
                bench.executor.start(
                    [make_work(slot, f"http://stuck-{slot}.example/", tenant_id=tenant_id) for slot in slots]
                )

            flood(1_000, "hostile")
            flood(2_000, "busy")
            for slot in range(20):
                work = make_work(slot, sink.url("/status/200", f"fine-{slot}.example"), tenant_id="innocent")
                assert (await bench.run(work)).outcome_class is OutcomeClass.SUCCESS

            def threads_of(first: int) -> int:
                return sum(f"stuck-{first + number}.example" in asked for number in range(200))

            await wait_until(lambda: threads_of(2_000) >= lookup.THREAD_COUNT // 4, "the second flood to be asked")
            assert threads_of(1_000) == lookup.THREAD_COUNT // 2
            assert threads_of(2_000) == lookup.THREAD_COUNT // 4
            release.set()

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_name_that_was_given_up_is_not_asked_for_twice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(lookup, "DEADLINE_MS", 50)
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        release.wait(50)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with running_sink() as sink, Bench(loopback(dns_ttl_ms=0), resolve) as bench:
            url = sink.url("/status/200", "slow.example")
            for slot in range(5):
                assert (await bench.run(make_work(slot, url))).outcome_class is OutcomeClass.RETRYABLE
            assert asked == ["slow.example"]
            monkeypatch.setattr(lookup, "DEADLINE_MS", 5_000)
            bench.executor.start([make_work(9, url)])
            release.set()
            (answered,) = await bench.wait_for(9)
            assert answered.outcome_class is OutcomeClass.SUCCESS
            assert asked == ["slow.example"]

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_names_that_wait_for_a_thread_are_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(lookup, "DEADLINE_MS", 100)

    def resolve(host: str) -> Sequence[str]:
        release.wait(50)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with Bench(resolve=resolve) as bench:
            slots = range(2 * lookup.THREAD_COUNT)
            bench.executor.start([make_work(slot, f"http://h{slot}.example/") for slot in slots])
            outcomes = await bench.wait_for(*slots)
            assert {outcome.error for outcome in outcomes} == {
                f"the name h{slot}.example did not resolve within 100 ms" for slot in slots
            }
            lookups = bench.executor._lookups
            assert len(lookups._at_work) == len(lookups._askers) == lookup.THREAD_COUNT // 2
            assert not lookups._lines
            release.set()

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_name_that_never_resolves_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(lookup, "DEADLINE_MS", 100)

    def resolve(host: str) -> Sequence[str]:
        release.wait(50)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with running_sink() as sink, Bench(resolve=resolve) as bench:
            outcome = await bench.run(make_work(1, sink.url("/status/200", "slow.example")))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.error == "the name slow.example did not resolve within 100 ms"
            release.set()  # the late answer is welcome for the next attempt

            def has_landed() -> bool:
                answer = bench.executor._lookups.cached("slow.example")
                return answer is not None and bool(answer.addresses)

            await wait_until(has_landed, "the late answer to land")

    try:
        asyncio.run(scenario())
    finally:
        release.set()


def test_cache_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "CACHE_COUNT", 8)

    async def scenario() -> None:
        names = Names(["10.0.0.1"])
        async with Bench(resolve=names) as bench:
            bench.executor.start([make_work(slot, f"http://h{slot}.example/") for slot in range(100)])
            await bench.wait_for(*range(100))
            assert len(bench.executor._lookups._answers) <= 8

    asyncio.run(scenario())
