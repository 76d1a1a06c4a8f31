"""From (method, path) -> handler to Starlette routes; each endpoint has a description, and the other way round."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from starlette.routing import Route

from tickwheel.interfaces.http.admission import Admit
from tickwheel.interfaces.http.operations import OPERATIONS, Operation
from tickwheel.interfaces.http.operations.model import TENANT
from tickwheel.interfaces.http.resource import Handler, Need, Resource, Watch
from tickwheel.services.authentication import Authentication

Key: TypeAlias = tuple[str, str]
"""(method, path with its variable parts in braces)"""
JOB_BODIES: Final = ("JobRequest", "CompactRequest", "JobBatch")
"""They say themselves whose jobs they are."""


class UndocumentedEndpoint(Exception):
    """An endpoint without a description, or a description without an endpoint: a fault in this package."""


def build_routes(
    endpoints: Mapping[Key, Handler],
    authentication: Authentication,
    operations: Sequence[Operation] = OPERATIONS,
    admit: Admit | None = None,
    watch: Watch | None = None,
) -> list[Route]:
    """One route per path; fixed paths come before variable ones. `operations` describe all of them."""
    described = {(operation.method, operation.path): operation for operation in operations}
    if endpoints.keys() != described.keys():
        raise UndocumentedEndpoint(f"differ: {sorted(endpoints.keys() ^ described.keys())}")
    by_path: dict[str, dict[str, Handler]] = {}
    for (method, path), handler in endpoints.items():
        by_path.setdefault(path, {})[method] = handler
    routes = []
    for path in sorted(by_path, key=lambda path: ("{" in path, path.count("{"), -len(path))):
        one = [operation for operation in operations if operation.path == path]
        is_public = all(operation.public for operation in one)
        resource = Resource(
            by_path[path],
            None if is_public else authentication,
            needs={each.method: _need_of(each) for each in one},
            admit=None if is_public else admit,
            route=path,
            watch=watch,
        )
        # Names may hold slashes, and they arrive decoded.
        free = path.replace("{name}", "{name:path}").replace("{tenant_id}", "{tenant_id:path}")
        routes.append(Route(free, resource))
    return routes


def _need_of(operation: Operation) -> Need:
    makes_jobs = operation.body is not None and operation.body.schema in JOB_BODIES
    return Need(operation.scope, operation.for_installation, TENANT in operation.params and not makes_jobs)
