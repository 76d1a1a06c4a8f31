"""Who may do what: scopes, the roles that bundle them, and the principal that a request is made by.

A principal belongs to one tenant, or to none: then it may act for every tenant (the operator of the installation).
What another tenant has is never refused but *not found*, so that its ids can't be probed.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec


class Scope(StrEnum):
    """One permission. Endpoints name the one that they need."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"  # cancel and redrive runs, remove dead letters
    WORK = "work"  # poll for runs, and report their ends
    WORKERS_READ = "workers:read"
    METRICS_READ = "metrics:read"
    AUDIT_READ = "audit:read"
    TOKENS_WRITE = "tokens:write"  # see, make, rotate and revoke API keys
    SECRETS_WRITE = "secrets:write"  # see the names of signing secrets, make and rotate them
    NOTIFICATIONS_WRITE = "notifications:write"  # see, set, try and delete rules of notification
    TENANTS_READ = "tenants:read"  # limits and usage
    TENANTS_WRITE = "tenants:write"


class Role(StrEnum):
    """A bundle of scopes for a kind of user."""

    READER = "reader"
    SCHEDULER = "scheduler"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"


_READER: Final = frozenset({Scope.JOBS_READ, Scope.RUNS_READ, Scope.TENANTS_READ})
_SCHEDULER: Final = _READER | {Scope.JOBS_WRITE}
_OPERATOR: Final = _SCHEDULER | {
    Scope.RUNS_WRITE,
    Scope.WORKERS_READ,
    Scope.METRICS_READ,
    Scope.AUDIT_READ,
    Scope.NOTIFICATIONS_WRITE,
}
ROLE_SCOPES: Final = {
    Role.READER: _READER,
    Role.SCHEDULER: _SCHEDULER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Scope),
    Role.WORKER: frozenset({Scope.WORK}),
}


class Principal(msgspec.Struct, frozen=True):
    """Whose request it is. `tenant_id` None: it may act for every tenant.

    `name` goes into the audit log: `key:<id>`, `jwt:<issuer's subject>`, `token` or `anonymous`.
    """

    name: str
    scopes: frozenset[Scope]
    tenant_id: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether it has this permission."""
        return scope in self.scopes


EVERYTHING: Final = frozenset(Scope)
ANONYMOUS: Final = Principal("anonymous", EVERYTHING)
"""Whoever reaches a server on which no authentication is set up."""
STATIC_TOKEN: Final = Principal("token", EVERYTHING)
"""Whoever sends a token of the server's own settings."""


def narrowed(role: Role, scopes: Iterable[Scope]) -> frozenset[Scope]:
    """The scopes of a role, or those of them that are named, if any are. Raises ValueError for one it hasn't."""
    wanted = frozenset(scopes)
    beyond = wanted - ROLE_SCOPES[role]
    if beyond:
        names = ", ".join(sorted(beyond))
        raise ValueError(f"the role {role.value} does not have {names}")
    return wanted or ROLE_SCOPES[role]
