"""The ASGI application: authentication, routes, and a 404 of our own."""

from collections.abc import Sequence
from typing import Final

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.interfaces.http.admission import admission
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import build_routes
from tickwheel.interfaces.http.host_check import LocalHostsOnly
from tickwheel.interfaces.http.operations import OPERATIONS, Operation
from tickwheel.interfaces.http.resource import Call, Resource
from tickwheel.interfaces.http.routes.audit_log import AuditLogRoutes
from tickwheel.interfaces.http.routes.dead_letters import DeadLetterRoutes
from tickwheel.interfaces.http.routes.explanations import ExplanationRoutes
from tickwheel.interfaces.http.routes.jobs import JobRoutes
from tickwheel.interfaces.http.routes.live import LiveRoutes
from tickwheel.interfaces.http.routes.new_jobs import NewJobRoutes
from tickwheel.interfaces.http.routes.notifications import NotificationRoutes
from tickwheel.interfaces.http.routes.runs import RunRoutes
from tickwheel.interfaces.http.routes.scaling import ScalingRoutes
from tickwheel.interfaces.http.routes.schedules import ScheduleRoutes
from tickwheel.interfaces.http.routes.secrets import SecretRoutes
from tickwheel.interfaces.http.routes.server import ServerRoutes
from tickwheel.interfaces.http.routes.slo import SloRoutes
from tickwheel.interfaces.http.routes.tenants import TenantRoutes
from tickwheel.interfaces.http.routes.tokens import TokenRoutes
from tickwheel.interfaces.http.routes.workers import WorkerRoutes
from tickwheel.interfaces.http.wire import Answer, Refusal

_GROUPS: Final = (
    NewJobRoutes,
    JobRoutes,
    RunRoutes,
    ExplanationRoutes,
    DeadLetterRoutes,
    WorkerRoutes,
    ScalingRoutes,
    SloRoutes,
    ScheduleRoutes,
    TokenRoutes,
    AuditLogRoutes,
    SecretRoutes,
    TenantRoutes,
    NotificationRoutes,
    LiveRoutes,
    ServerRoutes,
)


def build_app(deps: Deps) -> ASGIApp:
    """The whole HTTP API. Starts nothing; serve it with `HttpServer`."""
    endpoints = {key: handler for group in _GROUPS for key, handler in group(deps).endpoints().items()}
    operations: Sequence[Operation] = OPERATIONS
    if not deps.serves_api:
        endpoints = {key: handler for key, handler in endpoints.items() if key in _WITHOUT_API}
        operations = tuple(one for one in OPERATIONS if (one.method, one.path) in _WITHOUT_API)
    routes = build_routes(endpoints, deps.authentication, operations, admission(deps.quotas), deps.watch)
    # Any method, or a path that does not exist would answer 405.
    nowhere = Resource(
        dict.fromkeys(_METHODS, _no_such_path if deps.serves_api else _no_api),
        deps.authentication,
        watch=deps.watch,
    )
    router = Router(routes, redirect_slashes=False, default=nowhere)
    app = _FixedPathsFirst({route.path: route.endpoint for route in routes if "{" not in route.path}, router)
    return app if deps.authentication.required else LocalHostsOnly(app)


_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


async def _no_such_path(call: Call) -> Answer:
    raise Refusal("no_such_path", "The API has nothing at this path; /docs lists what there is.")


async def _no_api(call: Call) -> Answer:
    raise Refusal(
        "no_such_path", "This node serves no API, only health and metrics; another node's roles have it."
    )


_WITHOUT_API: Final = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")})


class _FixedPathsFirst:
    """Looks a path without variable parts up in one step; only the others are matched by the router."""

    def __init__(self, fixed: dict[str, ASGIApp], router: ASGIApp) -> None:
        self._fixed = fixed
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._fixed.get(scope["path"]) if scope["type"] == "http" else None
        await (app or self._router)(scope, receive, send)
