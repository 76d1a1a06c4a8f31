"""Health, readiness, metrics, the OpenAPI document, the pages."""

from collections.abc import Mapping

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.http.answers import HealthBody, ReadyBody
from tickwheel.interfaces.http.dashboard import dashboard
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.docs_page import docs_page
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.openapi import openapi_bytes
from tickwheel.interfaces.http.pages import assets
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.version import VERSION
from tickwheel.interfaces.http.wire import JSON_TYPE, Answer, ok, problem


class ServerRoutes:
    """What is about the server itself."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/healthz"): self.health,
            ("GET", "/readyz"): self.ready,
            ("GET", "/metrics"): self.metrics,
            ("GET", "/openapi.json"): self.openapi,
            ("GET", "/"): dashboard,
            ("GET", "/docs"): docs_page,
            ("GET", "/assets/{name}"): assets(),
        }

    async def health(self, call: Call) -> Answer:
        """Whether the process lives, and which zone data it goes by."""
        return ok(HealthBody("ok", VERSION, tzdata_version()))

    async def ready(self, call: Call) -> Answer:
        """Whether the store answers and takes writes, and the node is fit."""
        try:
            await self._deps.store.check()
        except TickwheelError as error:
            return problem("store_unavailable", str(error))
        refusal = self._deps.refusal()
        if refusal:
            return problem("store_unavailable", f"The store takes no writes: {refusal}")
        unfit = self._deps.unfit()
        return problem("not_ready", unfit) if unfit else ok(ReadyBody("ready"))

    async def metrics(self, call: Call) -> Answer:
        """Prometheus text."""
        return Answer(200, self._deps.metrics(), ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))

    async def openapi(self, call: Call) -> Answer:
        """The description for machines."""
        return Answer(200, openapi_bytes(), ((b"content-type", JSON_TYPE),))
