"""Whether a worker may be told which tenant it belongs to."""

from collections.abc import Sequence

from tickwheel.domain.requests.text_rules import tenant_fault


def find_tenant_problem(servers: Sequence[str], tenant_id: str | None) -> str | None:
    """What is wrong with that tenant for a worker of these servers (none: of a store); None: nothing."""
    if tenant_id is None:
        return None
    if servers:
        return "doesn't go with a server: there the token says whose runs the worker gets"
    return tenant_fault(tenant_id) if tenant_id else "must not be empty; leave it out to serve all tenants"
