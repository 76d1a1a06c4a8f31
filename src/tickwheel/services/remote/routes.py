"""What the live workers can do, as an owner knows it: which routes they serve, and with how many slots.

A route stays known for `KEPT_MS` after its last worker has gone, with no slots: runs for it wait in memory
meanwhile, in order, because workers that are replaced one by one are away for a moment only. After that it is as
if nobody had ever served it, and what is due waits in the store.

**Tenants.** A route is shared, or one tenant's own. Runs of a tenant go to its own workers as long as any of them
takes work, however busy they are, and else to those that all tenants share (`pick`). There is no overflow from one
to the other: the same handler may be another program there, in another network.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import WEBHOOKS, handler_route, tenant_route
from tickwheel.ports.workers import WorkerState

KEPT_MS: Final = 60_000


class Routes:
    """Read by claims, written by whoever reads the sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[str, int] = {}
        self._seen_mono_ms: dict[str, int] = {}
        self._tenants: dict[str, str] = {}  # of the routes that are a tenant's own

    def __bool__(self) -> bool:
        return bool(self._seen_mono_ms)

    def learn(self, states: Sequence[WorkerState]) -> Sequence[str]:
        """Take in all live sessions; gives the routes that became known by it."""
        now_ms, slots = self._clock.monotonic_ms(), dict[str, int]()
        for state in states:
            takes = 0 if state.note.draining or state.note.stalled else state.note.slots
            for route in routes_of(state):
                slots[route] = slots.get(route, 0) + takes
                if state.note.tenant_id is not None:
                    self._tenants[route] = state.note.tenant_id
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
            self._tenants.pop(route, None)
        return gone

    def pick(self, route: str, tenant_id: str) -> str:
        """Of a shared route and the tenant's own, the one that its runs take now.

        Where nobody takes work at either, they wait for the workers that were there last.
        """
        if not self._tenants:
            return route
        own = tenant_route(tenant_id, route)
        if self._slots.get(own) or (own in self._tenants and not self._slots.get(route)):
            return own
        return route

    def has_own(self, route: str, tenant_id: str) -> bool:
        """Whether workers of the tenant's own serve that shared route now."""
        return bool(self._tenants) and self._slots.get(tenant_route(tenant_id, route), 0) > 0

    def own(self) -> Mapping[str, str]:
        """The tenants that have own workers now, by their routes."""
        return {route: tenant_id for route, tenant_id in self._tenants.items() if self._slots.get(route)}

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
    note = state.note
    return worker_routes(note.handlers, webhooks=note.webhooks, tenant_id=note.tenant_id)


def worker_routes(handlers: Iterable[str], *, webhooks: bool, tenant_id: str | None) -> Sequence[str]:
    """Where the hints are that such a worker takes."""
    routes = [*map(handler_route, handlers), *[WEBHOOKS] * webhooks]
    return routes if tenant_id is None else [tenant_route(tenant_id, route) for route in routes]
