"""Whose things a request is about: the tenant of its token, or the one that it names.

A token of one tenant can't name another one. It is told that nothing was found, whether or not there is such a
tenant, so that nobody can find out which there are.
"""

from tickwheel.domain.errors import NotFound
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.http.query import Query
from tickwheel.interfaces.http.resource import Call


def given_tenant(query: Query) -> str | None:
    """The `tenant_id` of the query, None if it has none."""
    tenant_id = query.text("tenant_id")
    fault = None if tenant_id is None else tenant_fault(tenant_id)
    if fault is not None:
        query.reject("tenant_id", fault)
        return None
    return tenant_id


def tenant_filter(call: Call) -> str | None:
    """The tenant of the token or of the query; None: all of them. Raises `NotFound`."""
    given, bound = given_tenant(call.query), call.principal.tenant_id
    if bound is None:
        return given
    if given is not None and given != bound:
        raise NotFound("This token's tenant has no such thing.")
    return bound


def tenant_of(call: Call) -> str:
    """The tenant of the token or of the query, or the default one. Raises `NotFound`."""
    return tenant_filter(call) or DEFAULT_TENANT
