"""The targets that a gate knows: those in use, and those of which there is something to remember."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tickwheel.domain.breaker import BreakerState, Cause
from tickwheel.domain.rate import Gcra, RateLimit
from tickwheel.ports.queue import handler_route
from tickwheel.services.gates.host import Host
from tickwheel.services.ready import KIND_WEBHOOK

SWEEP_MS: Final = 1_000
REMEMBERED_MS: Final = 600_000
"""What was learned about a host that nobody calls is forgotten after so long, or when its pause is over."""
REMEMBERED_COUNT: Final = 10_000
"""At most so many idle hosts are remembered."""
HANDLER_PLACES: Final = 1 << 30
"""Handlers have a rate only; the slots of their executor are what bounds them."""


class Hosts:
    """By name. `looks` says when time alone may have made room at a host."""

    def __init__(
        self,
        limit: int,
        host_rates: Mapping[str, RateLimit],
        handler_rates: Mapping[str, RateLimit],
        share: Callable[[], float],
    ) -> None:
        self._limit, self._share = limit, share
        rates = {**host_rates, **{handler_route(name): rate for name, rate in handler_rates.items()}}
        self._rates = {name: Gcra(rate) for name, rate in rates.items()}
        self._rated_handlers = frozenset(handler_rates)
        self.known: dict[str, Host] = {}
        self.looks: dict[str, int] = {}
        self.opened: Counter[Cause] = Counter()
        self._swept_ms = 0
        self._last_share = 1.0

    def rate_of(self, name: str) -> Gcra | None:
        """The account of a host's rate, or a handler's by its route, if it has one; runs elsewhere use it too."""
        return self._rates.get(name)

    def rates_handler(self, name: str) -> bool:
        """Whether this handler has a rate."""
        return name in self._rated_handlers

    def get(self, name: str, kind: int) -> Host:
        """The host, new if it was not known."""
        host = self.known.get(name)
        if host is None:
            limit = self._limit if kind == KIND_WEBHOOK else HANDLER_PLACES
            host = self.known[name] = Host(name, limit, kind, self._rates.get(name))
        return host

    def with_waiting(self) -> Iterator[Host]:
        """Those for which runs wait."""
        return (self.known[name] for name in self.looks)

    def forget(self, host: Host, now_ms: int) -> None:
        """Drop a host that nobody uses, unless there is something to remember."""
        if not host.idle:
            return
        host.idle_since_ms = now_ms
        if host.is_calm(now_ms):
            self._drop(host)

    def forget_idle(self, now_ms: int) -> None:
        """Now and then: drop what is remembered for too long, and renew this node's share of the rates."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        self._renew_share(now_ms)
        idle = [host for host in self.known.values() if host.idle]
        idle.sort(key=lambda host: host.idle_since_ms, reverse=True)
        for place, host in enumerate(idle):
            quiet_ms = now_ms - max(host.idle_since_ms, host.breaker.until_ms)
            if host.is_calm(now_ms) or quiet_ms > REMEMBERED_MS or place >= REMEMBERED_COUNT:
                self._drop(host)

    def _renew_share(self, now_ms: int) -> None:
        share = self._share()
        if share != self._last_share:
            self._last_share = share
            for rate in self._rates.values():
                rate.take_share(share, now_ms)

    def states(self, now_ms: int) -> dict[str, float]:
        """How many hosts are not as they should be, by what is the matter."""
        counts = dict.fromkeys(("open", "half_open", "slowed"), 0.0)
        for host in self.known.values():
            state = host.breaker.look(now_ms)
            if state is not BreakerState.CLOSED:
                counts["open" if state is BreakerState.OPEN else "half_open"] += 1
            elif not host.aimd.at_ceiling:
                counts["slowed"] += 1
        return counts

    def held(self, now_ms: int) -> dict[str, float]:
        """How many runs wait, by why."""
        counts = dict.fromkeys(("full", "slowed", "failing", "retry_after", "rate"), 0.0)
        for host in self.with_waiting():
            counts[host.why(now_ms)] += len(host.waiting)
        return counts

    def _drop(self, host: Host) -> None:
        self.known.pop(host.name, None)
        self.looks.pop(host.name, None)
