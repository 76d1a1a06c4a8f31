"""What the audit log says of jobs is put together in two ways; both must say the same."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import JobState
from tickwheel.ports.audit_entries import alone_entries, change_entry, created_entry, drafts_of, told_job
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, JobView, NewJob

from .requests.samples import BILLING, ONCE
from .requests.test_edits_of_definitions import stored

ACT = Act("key:alice", "job.create", "192.0.2.7")
SAMPLES: list[dict[str, Any]] = [
    BILLING,
    dict(BILLING, catch_up={"policy": "skip", "max": 3}, overlap="skip", deadline_seconds=1.5, tags=["a", "b"]),
    dict(BILLING, start_at="2026-10-22T14:30:00.123Z", end_at="2027-10-22T14:30:00+02:00", payload={"ä": "ü"}),
    dict(BILLING, concurrency=[{"limit": 3, "key": "k"}]),
    ONCE,
    dict(ONCE, idempotency_key="k", job_name='x"y'),
    dict(ONCE, target={"endpoint": "https://a.example/x?token=abc"}),
    {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "send_email"}, "payload": [1, "\u0000"]},
]


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_a_new_job_is_told_as_one_that_is_deleted(number: int) -> None:
    members = SAMPLES[number]
    job = stored(members)
    job = replace(job, idempotency_key=members.get("idempotency_key"))
    before = JobView(job, None)
    after = JobView(replace(job, state=JobState.DELETED), None)
    deleted = change_entry(ACT, before, after, Change(job=after.job), 5)
    assert deleted is not None
    assert deleted.before is not None
    told = json.loads(told_job(job))
    assert told == json.loads(deleted.before)
    assert told["payload_bytes"] == len(job.payload.encode())
    assert "abc" not in str(told)


def test_jobs_with_other_header_values_are_told_alike() -> None:
    job, other = (
        stored(BILLING),
        stored(dict(BILLING, target=dict(BILLING["target"], headers={"Content-Type": "s"}))),
    )
    assert told_job(job) == told_job(other)
    assert '"Content-Type":"[redacted]"' in told_job(job)


@pytest.mark.parametrize("count", [1, 5, 31, 32, 100])
def test_ids_are_printed_alike_however_many_there_are(count: int) -> None:
    jobs = [replace(stored(ONCE), job_id=bytes([n]) * 16) for n in range(count)]
    entries = alone_entries([(ACT, job) for job in jobs], 5)
    assert [entry.subject for entry in entries] == [job_id_text(job.job_id) for job in jobs]
    assert entries == [created_entry(ACT, job, 5) for job in jobs]


def test_calls_are_drafted_by_tenant() -> None:
    jobs = [NewJob(stored(ONCE, tenant_id=tenant), None) for tenant in "abbaac"]
    other = Act("key:bob", "job.trigger")
    drafts = list(drafts_of(jobs, [(ACT, 4), (None, 1), (other, 1)]))
    assert drafts == [(ACT, "a", [0, 3]), (ACT, "b", [1, 2]), (other, "c", (5,))]
