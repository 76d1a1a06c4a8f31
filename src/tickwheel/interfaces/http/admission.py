"""Whose limits a request counts against, before it is looked at.

A token of one tenant: against that tenant's, whatever it asks for. A token of all tenants: against those of the
tenant that the query names, or of the default one; where a body makes a job, against those of the job's tenant,
once it was read. What is about the whole installation counts against nobody's, and so does a batch of jobs for any
tenants: an operator can always mend a limit. A token of all tenants also reaches what a disabled one has, to look
after it; but nobody makes jobs for that.

Workers are never refused here: what they report has happened, and a poll brings nothing that may not start.
"""

from collections.abc import Callable
from typing import TypeAlias

from tickwheel.domain.access import Scope
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.text_rules import tenant_fault
from tickwheel.interfaces.http.resource import Call, Need
from tickwheel.services.quotas import Quotas

Admit: TypeAlias = Callable[[Call, Need], None]


def admission(quotas: Quotas | None) -> Admit | None:
    """What `Resource` calls. It raises `QuotaExceeded` and `TenantDisabled`."""
    if quotas is None:
        return None

    def admit(call: Call, need: Need) -> None:
        if need.scope is None or need.scope is Scope.WORK:
            return
        if call.principal.tenant_id is not None:
            quotas.check_request(call.principal.tenant_id)
        elif need.names_tenant:
            tenant_id = call.query.given("tenant_id") or DEFAULT_TENANT
            if tenant_fault(tenant_id) is None:  # else it is refused for that
                quotas.check_request(tenant_id, by_operator=True)

    return admit


def admit_for(call: Call, quotas: Quotas | None, tenant_id: str) -> None:
    """A body names the tenant. Raises `QuotaExceeded`."""
    if quotas is not None and call.principal.tenant_id is None:
        quotas.check_request(tenant_id, by_operator=True)
