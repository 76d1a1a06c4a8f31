"""Whose things a request makes: the tenant of whoever sends it, or another one that may have things."""

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.text_rules import new_tenant_fault


def check_new_tenant(tenant_id: str) -> None:
    """Something is to be made for this tenant. Raises `InvalidRequest` for a name that would mislead."""
    fault = new_tenant_fault(tenant_id)
    if fault is not None:
        raise InvalidRequest([FieldProblem("tenant_id", fault)])


def own(request: JobRequest, bound_tenant: str | None) -> JobRequest:
    """`request`, unless it names another tenant than the one that it is bound to: then `InvalidRequest`."""
    if bound_tenant is None or request.tenant_id == bound_tenant:
        return request
    message = f"is {request.tenant_id!r}, but this request is about the tenant {bound_tenant!r}; leave it out"
    raise InvalidRequest([FieldProblem("tenant_id", message, "conflict")])
