"""Jobs to put in, and a look at the database file from outside."""

from pathlib import Path
from typing import Any

import apsw

from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.ports.store import FirstTimer, NewJob

DUE_MS = 1_790_000_000_000
SPEC = Spec(target=Target(TargetType.HTTP_WEBHOOK, endpoint="http://sink.example/"))


def one_off(number: int, **fields: Any) -> NewJob:
    """A one-off that is due at `DUE_MS` + `number`."""
    due_ms = DUE_MS + number
    values = {
        "job_id": make_job_id(created_ms=DUE_MS, shard=3, due_ms=due_ms, random48=number.to_bytes(6, "big")),
        "tenant_id": "default",
        "name": f"job-{number}",
        "schedule_type": ScheduleType.ONE_OFF,
        "lane": Lane.DEFAULT,
        "spec": SPEC,
        "payload": "{}",
        "created_ms": DUE_MS,
        "updated_ms": DUE_MS,
        "scheduled_ms": due_ms,
    }
    return NewJob(Job(**{**values, **fields}), FirstTimer(due_ms, due_ms, 1), b"hash")


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows as another reader of the file sees them."""
    connection = apsw.Connection(str(folder / "tickwheel.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()
