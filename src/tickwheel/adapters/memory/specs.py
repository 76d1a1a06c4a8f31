"""The walk over stored specs; see `ports.specs`."""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.job import decode_spec, encode_spec
from tickwheel.ports.specs import SpecChange, SpecPiece, StoredSpec


class MemorySpecs:
    """Implements `ports.specs.SpecStore`; a part of `MemoryStore`."""

    _tables: Tables

    async def specs_with_headers(self, after: bytes, limit: int) -> SpecPiece:
        ids = list(islice((job_id for job_id in sorted(self._tables.jobs) if job_id > after), limit))
        jobs = [self._tables.jobs[job_id] for job_id in ids]
        specs = [
            StoredSpec(job.tenant_id, job.job_id, encode_spec(job.spec).decode())
            for job in jobs
            if job.spec.target.headers
        ]
        return SpecPiece(len(ids), specs, ids[-1] if len(ids) == limit else None)

    async def replace_specs(self, changes: Sequence[SpecChange]) -> int:
        count = 0
        for change in changes:
            job = self._tables.jobs.get(change.job_id)
            if job is not None and encode_spec(job.spec).decode() == change.before:
                self._tables.jobs[change.job_id] = replace(job, spec=decode_spec(change.after))
                count += 1
        return count
