"""Whose request it is: `tenant_id` in the query, in the body, or neither."""

from msgspec.structs import replace

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.http.query import Query


def given_tenant(query: Query) -> str | None:
    """The `tenant_id` of the query, None if it has none."""
    tenant_id = query.text("tenant_id")
    fault = None if tenant_id is None else tenant_fault(tenant_id)
    if fault is not None:
        query.reject("tenant_id", fault)
        return None
    return tenant_id


def query_tenant(query: Query) -> str:
    """The `tenant_id` of the query, or the default one."""
    return given_tenant(query) or DEFAULT_TENANT


def for_tenant(request: JobRequest, tenant_id: str | None) -> JobRequest:
    """`request` for the tenant of the query; a body that names another one is refused."""
    if tenant_id is None or request.tenant_id == tenant_id:
        return request
    if request.tenant_id != DEFAULT_TENANT:
        message = f"is {request.tenant_id!r} in the body and {tenant_id!r} in the query; remove one"
        raise InvalidRequest([FieldProblem("tenant_id", message, "conflict")])
    return replace(request, tenant_id=tenant_id)
