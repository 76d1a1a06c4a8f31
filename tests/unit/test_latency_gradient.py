"""The concurrency limit against simulated resources: it finds the knee, keeps its bounds and recovers."""

import pytest

from tickwheel.domain.latency_gradient import LatencyGradient


class Resource:
    """Does `knee` things at once in `base_ms` each; more of them share it, and take longer by as much."""

    def __init__(self, knee: int, base_ms: float) -> None:
        self.knee, self.base_ms = knee, base_ms

    def run_ms(self, in_flight: int) -> float:
        return self.base_ms * max(1.0, in_flight / self.knee)


class Simulation:
    """A worker that always has enough to do (or `demand` attempts at a time), in steps of a tenth of a second."""

    def __init__(self, gradient: LatencyGradient, resource: Resource) -> None:
        self.gradient, self.resource = gradient, resource
        self.mono_ms = 0
        self.limits: list[int] = []
        self._owed = 0.0

    def run(self, seconds: int, demand: int = 10_000) -> int:
        for _ in range(seconds * 10):
            self.mono_ms += 100
            in_flight = min(demand, self.gradient.limit)
            run_ms = self.resource.run_ms(in_flight)
            self._owed += in_flight * 100 / run_ms
            while self._owed >= 1:
                self._owed -= 1
                self.gradient.note(round(run_ms))
            self.limits.append(self.gradient.adjust(self.mono_ms, demand >= self.gradient.limit))
        return self.gradient.limit


@pytest.mark.parametrize(("knee", "base_ms"), [(5, 50), (20, 10), (20, 200), (100, 30), (300, 20)])
def test_it_finds_the_knee_within_a_factor(knee: int, base_ms: float) -> None:
    simulation = Simulation(LatencyGradient(1, 1_000), Resource(knee, base_ms))
    simulation.run(300)
    settled = sorted(simulation.limits[-1_000:])
    middle = settled[len(settled) // 2]
    assert knee / 2 <= middle <= 3 * knee, middle


def test_it_stays_within_its_bounds() -> None:
    simulation = Simulation(LatencyGradient(8, 32), Resource(1_000, 10))
    assert simulation.run(120) == 32
    simulation.resource = Resource(1, 10)
    simulation.run(240)
    assert min(simulation.limits) >= 8
    assert max(simulation.limits) <= 32
    assert simulation.gradient.limit <= 16


def test_it_comes_down_when_the_resource_gets_slow_and_recovers_with_it() -> None:
    simulation = Simulation(LatencyGradient(1, 200), Resource(100, 20))
    before = simulation.run(240)
    simulation.resource = Resource(10, 20)
    assert simulation.run(240) <= 40
    simulation.resource = Resource(100, 20)
    assert simulation.run(400) >= before / 2


def test_work_that_takes_longer_by_nature_is_no_reason_to_come_down() -> None:
    simulation = Simulation(LatencyGradient(1, 64), Resource(1_000, 20))
    simulation.run(120)
    simulation.resource = Resource(1_000, 200)
    simulation.run(300)
    assert simulation.gradient.limit >= 48


def test_an_idle_worker_learns_nothing() -> None:
    simulation = Simulation(LatencyGradient(4, 100), Resource(1_000, 10))
    assert simulation.run(120, demand=2) == 4


def test_attempts_of_no_length_let_it_grow() -> None:
    gradient = LatencyGradient(4, 100)
    for tick in range(600):
        for number in range(20):
            gradient.note(number % 3)
        gradient.adjust(tick * 100, True)
    assert gradient.limit == 100


def test_few_samples_change_nothing() -> None:
    gradient = LatencyGradient(4, 100)
    for second in range(9):
        gradient.note(10)
        assert gradient.adjust(second * 1_000, True) == 4


@pytest.mark.parametrize(("low", "high"), [(0, 4), (5, 4)])
def test_bounds_that_are_none_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError):
        LatencyGradient(low, high)
