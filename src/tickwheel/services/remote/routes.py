"""What the live workers can do, as an owner knows it: which routes they serve, and with how many slots.

A route stays known for `KEPT_MS` after its last worker has gone, with no slots: runs for it wait in memory
meanwhile, in order, because workers that are replaced one by one are away for a moment only. After that it is as
if nobody had ever served it, and what is due waits in the store.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import WEBHOOKS, handler_route
from tickwheel.ports.workers import WorkerState

KEPT_MS: Final = 60_000


class Routes:
    """Read by claims, written by whoever reads the sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[str, int] = {}
        self._seen_mono_ms: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._seen_mono_ms)

    def learn(self, states: Sequence[WorkerState]) -> Sequence[str]:
        """Take in all live sessions; gives the routes that became known by it."""
        now_ms, slots = self._clock.monotonic_ms(), dict[str, int]()
        for state in states:
            takes = 0 if state.note.draining or state.note.stalled else state.note.slots
            for route in routes_of(state):
                slots[route] = slots.get(route, 0) + takes
        fresh = [route for route in slots if route not in self._seen_mono_ms]
        self._slots = slots
        self._seen_mono_ms.update(dict.fromkeys(slots, now_ms))
        return fresh

    def forget_old(self) -> Sequence[str]:
        """Let go of routes that nobody has served for a while; gives them."""
        until_ms = self._clock.monotonic_ms() - KEPT_MS
        gone = [route for route, seen_ms in self._seen_mono_ms.items() if seen_ms <= until_ms]
        for route in gone:
            del self._seen_mono_ms[route]
        return gone

    def known(self, route: str) -> bool:
        """Whether somebody serves it, or did until a moment ago."""
        return route in self._seen_mono_ms

    def slots(self, route: str) -> int:
        """Attempts that all its live workers together can run at a time."""
        return self._slots.get(route, 0)

    def served(self) -> Iterable[str]:
        """What has live workers now."""
        return (route for route, slots in self._slots.items() if slots)

    def cover(self, routes: Iterable[str]) -> bool:
        """Whether each of these has workers now."""
        return all(self._slots.get(route, 0) > 0 for route in routes)


def routes_of(state: WorkerState) -> Sequence[str]:
    """What a worker serves."""
    routes = [handler_route(name) for name in state.note.handlers]
    return [*routes, WEBHOOKS] if state.note.webhooks else routes
