"""Requests for jobs, bound to the tenant of whoever sends them."""

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.job_request import JobRequest


def own(request: JobRequest, bound_tenant: str | None) -> JobRequest:
    """`request`, unless it names another tenant than the one that it is bound to: then `InvalidRequest`."""
    if bound_tenant is None or request.tenant_id == bound_tenant:
        return request
    message = f"is {request.tenant_id!r}, but this request is about the tenant {bound_tenant!r}; leave it out"
    raise InvalidRequest([FieldProblem("tenant_id", message, "conflict")])
