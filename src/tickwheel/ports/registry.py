"""The registry: small records that people make (API keys, tenants, signing secrets), and the audit log.

It lives in the database of the store, and every adapter of a store implements it too. Records are few (up to
some hundred thousand) and read through caches, so they are documents: a kind, a tenant, a name and a JSON body.
A change and its entry in the audit log are one transaction.

The audit log is append-only. Entries of jobs and runs are written by the verbs of `ports.store` that take an
`Act`, in the transaction of the change; those of records by `put_record` and `delete_record`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

API_KEY: Final = "api_key"
TENANT: Final = "tenant"
SIGNING_SECRET: Final = "signing_secret"  # noqa: S105 - a kind of record
NOTIFICATION: Final = "notification"
NO_TENANT: Final = ""
"""The tenant of a record that belongs to the installation as a whole."""


class Act(msgspec.Struct, frozen=True):
    """Who does what, from where. `action` is such as "job.create" or "token.rotate"."""

    actor: str  # name of a `domain.access.Principal`
    action: str
    source: str = ""  # address of the client; empty: this machine's command line
    trace: str = ""  # of the request (`domain.trace_context`); kept with jobs, not in the log


class Record(msgspec.Struct, frozen=True):
    """A stored document; `version` rises by one with each change of it, from 1."""

    kind: str
    tenant_id: str
    name: str
    body: str  # JSON; secrets in it are hashed or sealed
    version: int = 1
    updated_ms: int = 0
    used_ms: int = 0  # see `touch_records`


class AuditEntry(msgspec.Struct, frozen=True):
    """One change. `before` and `after` are JSON with every secret taken out; None: there was or is nothing."""

    number: int  # rises; 0 until it is stored
    at_ms: int
    tenant_id: str
    actor: str
    source: str
    action: str
    subject: str  # printed id of the job or run, "<kind>:<name>" of a record; "<count> jobs" for a batch
    before: str | None = None
    after: str | None = None


class AuditLogQuery(msgspec.Struct, frozen=True):
    """Filters; all given ones must match. `tenant_id` None: of all tenants. Newest first."""

    tenant_id: str | None
    limit: int = 50
    action: str | None = None  # a whole action, or a prefix that ends with a dot, such as "job."
    actor: str | None = None
    subject: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None  # exclusive
    after: str | None = None  # the cursor of the page before


class AuditLogPage(msgspec.Struct, frozen=True):
    """May hold fewer than `limit` and still have a cursor: the walk is bounded."""

    items: tuple[AuditEntry, ...]
    next_cursor: str | None


class Registry(Protocol):
    """Every verb raises `StoreUnavailable` (nothing was written) or `OutcomeUnknown`; both repeat well."""

    async def put_record(self, record: Record, act: Act, *, expected_version: int | None, shown: str) -> Record:
        """Insert (`expected_version` 0), replace that version, or put it whatever there is (None).

        Gives it as stored: with its new version, the store's time, and the latest use that is known. `shown` is
        what the audit log says of the new body: JSON without secrets; the entry's subject is "<kind>:<name>".
        Raises `Conflict` when there is one already, `VersionMismatch` when it is at another version, `NotFound`
        when there is none at the version that was named.
        """
        ...

    async def delete_record(self, kind: str, tenant_id: str, name: str, act: Act) -> bool:
        """Whether there was one."""
        ...

    async def records(self, kind: str) -> Sequence[Record]:
        """All of a kind, by tenant and name; what caches are filled from."""
        ...

    async def records_version(self) -> int:
        """Rises with every change of any record: one cheap read, each second, tells whether caches are stale."""
        ...

    async def touch_records(self, kind: str, used_ms: Mapping[str, int]) -> None:
        """Note when records (by name; names of API keys are unique) were used last; raises no version."""
        ...

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries that belong to no other change, such as a refused sign-in. `at_ms` 0: the store's time."""
        ...

    async def audit_log(self, query: AuditLogQuery) -> AuditLogPage:
        """Raises `BadCursor`."""
        ...

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        """Delete at most `limit` entries that are older; gives how many. The latest entry may stay in any case."""
        ...
