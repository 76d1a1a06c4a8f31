"""Many new jobs as few requests: at most `BATCH_COUNT` items and `BODY_BYTES` each."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.calls import BATCH_COUNT
from tickwheel.interfaces.client.flow import Flow, exchange
from tickwheel.interfaces.client.job_fields import job_json, new_key
from tickwheel.interfaces.client.models import BatchResult, CreatedJob, RefusedJob

BODY_BYTES: Final = 32 << 20
"""Half of what the server reads at most."""


class Batch:
    """Collects items until a request is full."""

    def __init__(self, *, limit_count: int = BATCH_COUNT, limit_bytes: int = BODY_BYTES) -> None:
        self._limit_count, self._limit_bytes = limit_count, limit_bytes
        self._items: list[bytes] = []
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self, item: bytes) -> bool:
        """Whether the item still fits; an empty batch takes anything."""
        if not self._items:
            return True
        return len(self._items) < self._limit_count and self._size_bytes + len(item) < self._limit_bytes

    def add(self, item: bytes) -> None:
        """Take the JSON of one job."""
        self._items.append(item)
        self._size_bytes += len(item) + 1

    def take(self) -> bytes:
        """The JSON array of everything collected; the batch is empty afterwards."""
        body = b"[" + b",".join(self._items) + b"]"
        self._items, self._size_bytes = [], 0
        return body


def schedule_all(jobs: Iterable[Mapping[str, Any]], tenant_id: str | None) -> Flow[BatchResult]:
    """Send them in as few requests as they fit into; the results in order."""
    results: list[CreatedJob | RefusedJob] = []
    batch, prefix = Batch(), new_key()
    for number, job in enumerate(jobs):
        item = job_json(job, tenant_id, key=f"{prefix}-{number}")
        if not batch.has_room(item):
            results += (yield from exchange(calls.create_jobs(batch.take()))).results
        batch.add(item)
    if batch:
        results += (yield from exchange(calls.create_jobs(batch.take()))).results
    return BatchResult(results=tuple(results))


def with_fields(line: bytes, *, key: str, tenant_id: str | None) -> bytes:
    """The JSON object of a job with an idempotency key and a tenant where it names none; the rest byte for byte.

    Raises `msgspec.DecodeError` for what is no JSON object.
    """
    fields = _members(line)
    if "idempotency_key" not in fields:
        fields["idempotency_key"] = msgspec.Raw(msgspec.json.encode(key))
    if tenant_id is not None and "tenant_id" not in fields:
        fields["tenant_id"] = msgspec.Raw(msgspec.json.encode(tenant_id))
    return msgspec.json.encode(fields)


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
