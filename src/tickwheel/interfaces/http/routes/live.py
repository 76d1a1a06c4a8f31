"""The installation as it is now: once, and as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.forecast import MINUTE_MS
from tickwheel.interfaces.http.auth import still_holds
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.live_bodies import due_body, forecast_body, node_list, overview_body
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.wire import Answer, Refusal, encode, ok
from tickwheel.services.live.forecasting import MINUTES_MAX
from tickwheel.services.live.overview import Lookout

STREAM_TICKS: Final = 60
"""A stream ends after a minute: who comes back shows his token again, and may meet another node."""
MINUTES_DEFAULT: Final = 6 * 60
DUE_DEFAULT: Final = 50
DUE_MAX: Final = 1_000
_HEADERS: Final = ((b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"))


class LiveRoutes:
    """For dashboards."""

    def __init__(self, deps: Deps) -> None:
        self._lookout, self._shards, self._forecasting = deps.lookout, deps.shards, deps.forecasting
        self._authentication = deps.authentication

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/overview"): self.overview,
            ("GET", "/v1/live"): self.live,
            ("GET", "/v1/nodes"): self.nodes,
            ("GET", "/v1/forecast"): self.forecast,
            ("GET", "/v1/forecast/due"): self.due,
        }

    async def overview(self, call: Call) -> Answer:
        """One look."""
        call.query.done()
        return ok(overview_body(await self._open().look()))

    async def live(self, call: Call) -> Answer:
        """A look every second, for as long as the token holds."""
        call.query.done()
        authorization = call.headers.get(b"authorization")
        pieces = _events(self._open(), call, lambda: still_holds(self._authentication, authorization))
        return Answer(200, headers=_HEADERS, pieces=pieces)

    async def nodes(self, call: Call) -> Answer:
        """The nodes, and who holds which shards."""
        call.query.done()
        nodes = self._open().pulse.nodes()
        return ok(node_list(nodes, [] if self._shards is None else list(await self._shards.list_shards())))

    async def forecast(self, call: Call) -> Answer:
        """What will be due, by minute."""
        minutes = call.query.integer("minutes", MINUTES_DEFAULT, 1, MINUTES_MAX)
        call.query.done()
        if self._forecasting is None:
            raise Refusal("not_ready", "This node doesn't watch the installation.")
        return ok(forecast_body(await self._forecasting.look(minutes)))

    async def due(self, call: Call) -> Answer:
        """The jobs that are due in a minute."""
        if self._forecasting is None:
            raise Refusal("not_ready", "This node doesn't watch the installation.")
        at_ms, limit = call.query.instant("at"), call.query.integer("limit", DUE_DEFAULT, 1, DUE_MAX)
        if at_ms is None:
            raise InvalidRequest([FieldProblem("at", "is missing; name an instant of the minute", "missing")])
        call.query.done()
        at_ms -= at_ms % MINUTE_MS
        return ok(due_body(at_ms, await self._forecasting.due_in(at_ms, limit)))

    def _open(self) -> Lookout:
        if self._lookout is None:
            raise Refusal("not_ready", "This node doesn't watch the installation.")
        return self._lookout


async def _events(lookout: Lookout, call: Call, is_welcome: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    gone = asyncio.Event()
    with call.watching(gone):
        yield b"retry: 1000\n\n"
        for _ in range(STREAM_TICKS):
            overview = await lookout.look()
            # Nothing is awaited between this and the event: a token that was revoked meanwhile is told nothing.
            if gone.is_set() or lookout.closed.is_set() or not is_welcome():
                return
            yield b"event: overview\ndata: " + encode(overview_body(overview)) + b"\n\n"
            await lookout.next_tick()
