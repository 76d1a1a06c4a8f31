"""Which late starts are a target's doing."""

import numpy as np

from tickwheel.domain.job import Target, TargetType
from tickwheel.ports.events import HostClosed, HostOpened
from tickwheel.ports.executor import Work
from tickwheel.services.held_hosts import HOSTS_MOST, LEAD_MS, HeldHosts
from tickwheel.testing.virtual_clock import VirtualClock

MINUTE_MS = 60_000


def work(host: str = "away.example", kind: TargetType = TargetType.HTTP_WEBHOOK) -> Work:
    target = Target(kind, endpoint=f"https://user@{host}/x") if kind is TargetType.HTTP_WEBHOOK else Target(kind)
    return Work(0, bytes(16), 0, 0, 1, 1, 0, "a", target, b"", None)


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.held = HeldHosts(self.clock)

    def opened(self, host: str = "away.example") -> None:
        self.held.hear(HostOpened(host=host, cause="failing", pause_ms=1_000, waiting_count=1))

    def closed(self, open_ms: int) -> None:
        self.held.hear(HostClosed(host="away.example", open_ms=open_ms, waiting_count=1))

    def was_held(self, late_ms: int, of: Work | None = None) -> bool:
        others = self.held.others([of or work()], np.array([late_ms]), 500)
        return others is not None and not others[0]


def test_only_what_was_due_around_the_time_that_its_host_was_away_was_held() -> None:
    scene = Scene()
    assert not scene.was_held(5_000)
    scene.opened()
    assert scene.was_held(LEAD_MS)
    assert not scene.was_held(LEAD_MS + 1)
    scene.clock.step_ms(10 * MINUTE_MS)
    assert scene.was_held(7 * MINUTE_MS)
    scene.closed(10 * MINUTE_MS)
    scene.clock.step_ms(30 * MINUTE_MS)
    assert scene.was_held(30 * MINUTE_MS)
    assert scene.was_held(20 * MINUTE_MS)
    assert not scene.was_held(20 * MINUTE_MS - 1)


def test_what_began_in_time_or_elsewhere_was_not_held() -> None:
    scene = Scene()
    scene.opened()
    assert not scene.was_held(500)
    assert not scene.was_held(5_000, work("here.example"))
    assert not scene.was_held(5_000, work(kind=TargetType.HANDLER))


def test_a_host_that_goes_away_again_was_away_all_the_time() -> None:
    scene = Scene()
    scene.opened()
    scene.clock.step_ms(MINUTE_MS)
    scene.closed(MINUTE_MS)
    scene.clock.step_ms(MINUTE_MS)
    scene.opened()
    scene.clock.step_ms(MINUTE_MS)
    assert scene.was_held(3 * MINUTE_MS)


def test_the_host_that_was_held_longest_ago_is_forgotten() -> None:
    scene = Scene()
    scene.opened()
    for number in range(HOSTS_MOST):
        scene.opened(f"h{number}.example")
    assert not scene.was_held(1_000)
    assert scene.was_held(1_000, work("h0.example"))
