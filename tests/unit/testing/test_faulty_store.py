import inspect
from collections.abc import Awaitable, Callable

import pytest

from tickwheel.adapters.memory import MemoryStore
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.ports.store import Counts, Store
from tickwheel.testing.faulty_store import FaultPlan, FaultyStore
from tickwheel.testing.virtual_clock import VirtualClock


class CountingStore(MemoryStore):
    """Knows how often its epochs were raised."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.acquired_count = 0

    async def acquire(self, worker: str):  # type: ignore[no-untyped-def]  # as the base class
        self.acquired_count += 1
        return await super().acquire(worker)


async def fates(plan: FaultPlan, calls: int = 200) -> tuple[list[str], int]:
    """What became of each call, and how many were carried out."""
    inner = CountingStore()
    store, found = FaultyStore(inner, plan), []
    for _ in range(calls):
        try:
            await store.acquire("w")
            found.append("answered")
        except OutcomeUnknown:
            found.append("lost")
        except StoreUnavailable:
            found.append("refused")
    return found, inner.acquired_count


async def test_a_refused_call_wrote_nothing_and_a_lost_answer_did() -> None:
    found, carried_out = await fates(FaultPlan(seed=1, refuse_rate=0.3, lose_answer_rate=0.3))
    assert set(found) == {"answered", "lost", "refused"}
    assert carried_out == 200 - found.count("refused")


async def test_one_seed_is_one_sequence_of_faults() -> None:
    assert await fates(FaultPlan(seed=5)) == await fates(FaultPlan(seed=5))
    assert await fates(FaultPlan(seed=5)) != await fates(FaultPlan(seed=6))


async def test_rates_are_kept_about() -> None:
    found, _ = await fates(FaultPlan(seed=2, refuse_rate=0.5, lose_answer_rate=0.0), calls=1000)
    assert 400 < found.count("refused") < 600
    assert "lost" not in found


async def test_only_the_verbs_of_the_plan_fail() -> None:
    plan = FaultPlan(seed=1, refuse_rate=1.0, verbs=frozenset({"acquire"}))
    store = FaultyStore(MemoryStore(VirtualClock()), plan)
    assert await store.counts() == Counts(0, 0, 0)
    with pytest.raises(StoreUnavailable, match="acquire"):
        await store.acquire("w")
    assert store.met == {("acquire", "refused"): 1}
    store.healed = True
    assert len(await store.acquire("w")) > 0


class Recorder:
    """Answers every verb with its name and what it was given."""

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[object]]:
        async def answer(*arguments: object, **options: object) -> object:
            return verb, arguments, options

        return answer


VERBS = sorted(
    name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_" and name != "aclose"
)


@pytest.mark.parametrize("verb", VERBS)
async def test_every_verb_of_the_port_is_passed_on_and_can_fail(verb: str) -> None:
    named = list(inspect.signature(getattr(Store, verb)).parameters.values())[1:]
    arguments = tuple(f"argument {p.name}" for p in named if p.kind is not p.KEYWORD_ONLY)
    options = {p.name: f"option {p.name}" for p in named if p.kind is p.KEYWORD_ONLY}
    inner: Store = Recorder()  # type: ignore[assignment]  # has every method
    calm = FaultyStore(inner, FaultPlan(seed=1, refuse_rate=0.0, lose_answer_rate=0.0))
    answer = await getattr(calm, verb)(*arguments, **options)
    assert answer == (None if verb in ("check", "enlist_worker") else (verb, arguments, options))
    for rates, error in (((1.0, 0.0), StoreUnavailable), ((0.0, 1.0), OutcomeUnknown)):
        store = FaultyStore(inner, FaultPlan(1, *rates))
        with pytest.raises(error, match=verb):
            await getattr(store, verb)(*arguments, **options)
