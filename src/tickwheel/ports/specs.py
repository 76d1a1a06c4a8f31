"""A walk over the stored specs whose targets have headers, for sealing what is in them anew.

It meets every job, also those that are over or deleted and not swept yet. Replacing a spec is no change of the job
as people see it: version and time of the last change stay, and the audit log has no entry. It happens only where
the spec is still as it was read, so an edit that comes between is never undone.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class StoredSpec(NamedTuple):
    """The spec of a job, as it is stored."""

    tenant_id: str
    job_id: bytes
    spec: str  # JSON


class SpecPiece(NamedTuple):
    """How many jobs were looked at, and the specs of those with headers. `after` None: there are no more."""

    looked_at: int
    specs: Sequence[StoredSpec]
    after: bytes | None


class SpecChange(NamedTuple):
    """One spec to take the place of another."""

    job_id: bytes
    before: str
    after: str


class SpecStore(Protocol):
    """Every store is one. Both verbs raise what those of `ports.store` raise, and repeat well."""

    async def specs_with_headers(self, after: bytes, limit: int) -> SpecPiece:
        """Look at the next `limit` jobs, in an order of the store's own; `after` b"": from the first."""
        ...

    async def replace_specs(self, changes: Sequence[SpecChange]) -> int:
        """In one transaction; gives how many were still as they were."""
        ...
