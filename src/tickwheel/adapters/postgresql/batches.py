"""Batches as parameters of statements: columns of structured arrays, or rows that were decided one by one."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tickwheel.adapters.postgresql.arrays import Array, Uuids, int2s, int4s, int8s, texts, uuids_of
from tickwheel.domain.columns import Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import shard_of

Bindings = dict[str, Any]

NONE: Final = -1
"""Stands for NULL in columns of numbers; the statements turn it back."""

_TEXTS: Final = ("counted", "error", "excerpt", "tenant_id", "cause", "result", "dropped")
_KINDS: Final[dict[str, Callable[[Any], Array]]] = {
    **dict.fromkeys(
        (
            "state",
            "last",
            "lane",
            "listed",
            "skip_reason",
            "http_status",
            "outcome",
            "flags",
            "limited",
            "waiting",
        ),
        int2s,
    ),
    **dict.fromkeys(
        ("gen", "old_gen", "timer_gen", "attempt", "worker", "lost_count", "unstarted_count", "version"), int4s
    ),
    **dict.fromkeys(
        (
            "scheduled_ms",
            "due_ms",
            "fence",
            "armed_ms",
            "claimed_ms",
            "started_ms",
            "finished_ms",
            "failed_ms",
            "lease_ms",
        ),
        int8s,
    ),
    **dict.fromkeys(_TEXTS, lambda column: texts([storable(text) for text in column])),
}


def storable(text: str | None) -> str | None:
    """A text that came from elsewhere as PostgreSQL can hold it: its texts have no NUL, and no half characters."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\u2400").encode("utf-8", "replace").decode()


def decided(rows: Sequence[tuple[Any, ...]], fields: Sequence[str]) -> Bindings:
    """Bindings by field of rows that have a `job_id`, in the order of the ledger's key; with shards and bounds."""
    places = fields.index("job_id"), fields.index("scheduled_ms")
    ordered = sorted(rows, key=lambda row: (row[places[0]][6:8], row[places[1]], row[places[0]]))
    bindings: Bindings = {}
    for name, column in zip(fields, zip(*ordered, strict=True), strict=True):
        if name == "job_id":
            bindings[name] = uuids_of(column)
            bindings["shard"] = int2s([shard_of(job_id) for job_id in column])
            continue
        kind = _KINDS[name]
        is_text = name in _TEXTS
        bindings[name] = kind(column if is_text else [NONE if value is None else value for value in column])
    instants = [row[places[1]] for row in rows]
    return {**bindings, **bounds("scheduled", instants)}


def bounds(name: str, values: Any) -> Bindings:
    """`<name>_min` and `<name>_max`: with them the planner leaves out the partitions that have no part in it."""
    return {f"{name}_min": int(np.min(values)), f"{name}_max": int(np.max(values))}


def in_key_order(batch: Rows) -> Ints:
    """The order of the ledger's key, in which every statement locks rows, so that none waits in a circle."""
    ids = np.ascontiguousarray(batch["job_id"])
    high = ids.view(">u8").reshape(-1, 2)
    order: Ints = np.lexsort((high[:, 1], high[:, 0], batch["scheduled_ms"], shards_of(ids)))
    return order


def homes_of(ids: Rows) -> Ints:
    """The home that is written into each id of a `V16` array."""
    raw = np.frombuffer(np.ascontiguousarray(ids).tobytes(), dtype=np.uint8).reshape(-1, 16)
    homes: Ints = raw[:, 8].astype(np.int64) << 8 | raw[:, 9]
    return homes


def home_of(job_id: bytes) -> int:
    """The home that is written into an id."""
    return int.from_bytes(job_id[8:10], "big")


def job_keys(job_ids: Sequence[bytes]) -> Bindings:
    """`homes`, `ids` and the set of the homes, of single jobs; at least one."""
    homes = [home_of(job_id) for job_id in job_ids]
    return {"homes": int4s(homes), "ids": uuids_of(job_ids), "home_set": int4s(sorted(set(homes)))}


def run_keys(keys: Sequence[tuple[bytes, int]]) -> Bindings:
    """`shards`, `scheduled` and `ids` of single runs (job_id, scheduled_ms), and bounds; at least one."""
    instants = [scheduled_ms for _, scheduled_ms in keys]
    ids: Uuids = uuids_of([job_id for job_id, _ in keys])
    shards = int2s([shard_of(job_id) for job_id, _ in keys])
    return {"shards": shards, "scheduled": int8s(instants), "ids": ids, **bounds("scheduled", instants)}
