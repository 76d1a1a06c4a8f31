"""Named statements from the `.sql` files beside this module.

A file holds statements that each begin with a line `-- name: some_name`. A line `-- batch: a b c` in one gives
it a table expression `batch (n, job_id, a, b, c)` over the bindings `:rows` (a JSON array of arrays) and `:ids`
(all job ids, 16 bytes each, one after the other). So a batch of any size is *one* statement that runs in C from
start to end: per row it neither calls Python nor takes the interpreter lock, which a busy main thread gives up
only every 5 ms. (`jsonb_each`, not `json_each`: the latter would print each row again as text.)
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

NAME_MARK: Final = "-- name:"
BATCH_MARK: Final = "-- batch:"
FRAGMENTS: Final = {
    "{job}": (
        "hex(j.job_id), j.tenant_id, j.name, j.schedule_type, j.lane, j.state, j.version, j.created_ms, "
        "j.updated_ms, j.effective_ms, j.scheduled_ms, j.named, j.idempotency_key, j.tags, j.spec, j.payload"
    ),
    "{run}": (
        "hex(r.job_id), j.tenant_id, r.scheduled_ms, r.state, r.gen, r.fence, r.attempt, r.lane, r.skip_reason, "
        "r.lost_count, w.name, r.armed_ms, r.claimed_ms, r.started_ms, r.finished_ms, r.lease_ms, r.beat_ms, "
        "r.due_ms, r.http_status, r.error"
    ),
}
"""Column lists that several statements share; `codec` reads them in this order."""


def load_statements(area: str) -> Mapping[str, str]:
    """The statements of `sql/<area>.sql` by name."""
    text = (files(__package__) / "sql" / f"{area}.sql").read_text("utf-8")
    for mark, columns in FRAGMENTS.items():
        text = text.replace(mark, columns)
    statements: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(NAME_MARK):
            lines = statements.setdefault(line.removeprefix(NAME_MARK).strip(), [])
        elif line.startswith(BATCH_MARK):
            lines.append(_batch(line.removeprefix(BATCH_MARK).split()))
        else:
            lines.append(line)
    return {name: "\n".join(body).strip() for name, body in statements.items()}


def _batch(columns: list[str]) -> str:
    fields = "".join(f", value ->> {number} AS {name}" for number, name in enumerate(columns))
    source = f"SELECT key AS n, substr(:ids, 16 * key + 1, 16) AS job_id{fields} FROM jsonb_each(:rows)"  # noqa: S608  # columns come from our own .sql files
    return f"WITH batch AS ({source})"
