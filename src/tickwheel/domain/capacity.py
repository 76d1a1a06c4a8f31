"""What a load needs of machines: arithmetic from measured prices of one run.

The prices were measured on PostgreSQL 15 and Tickwheel side by side on two cores of a server's processor, with
payloads of about 200 bytes and large batches (`docs/performance.md` has the commands). They leave out what grows
with the number of nodes and the rows in one table, both small beside them.
"""

from math import ceil
from typing import Final, NamedTuple

INSERT_US: Final = 15.0
RUN_US: Final = 19.0
DATABASE_US: Final = INSERT_US + RUN_US
"""PostgreSQL's CPU for one run: its creation; reading, claiming and ending it. With log and checkpoints."""
INGEST_US: Final = 17.0
FIRE_US: Final = 12.0
"""Tickwheel's CPU for a job in a batch over HTTP, and for a run of a handler that does nothing."""
LOG_BYTES: Final = 1_340
"""Of the write-ahead log, with a payload of `PAYLOAD_BYTES`, which is written once."""
WAITING_BYTES: Final = 930
"""Definition and timer on disk with their index entries, with the same payload."""
HISTORY_BYTES: Final = 390
"""The ledger's row with its index entry."""
PRIMARY_PER_S: Final = 25_000
"""Runs per second that one primary was seen to carry. It may carry more; beyond that nobody has measured."""
PAYLOAD_BYTES: Final = 200
ARMED_BYTES: Final = 38
BUFFERED_BYTES: Final = 66
"""Of Redis' memory for a timer in the buffer, in packs of about four: 43 in full ones, 143 alone (ADR 0023)."""
BUFFER_S: Final = 7_200
NODE_BYTES: Final = 100_000_000
BUSY_SHARE: Final = 0.6
"""How busy cores may be at the peak, so that a burst, a takeover or a checkpoint finds room."""
DAY_S: Final = 86_400
HOUR_S: Final = 3_600


class Load(NamedTuple):
    """`jobs` wait at a time, due evenly over `horizon_days`; runs per second at the peak and on average."""

    jobs: int
    peak_per_s: float
    mean_per_s: float
    payload_bytes: int = PAYLOAD_BYTES
    horizon_days: float = 30.0
    retention_days: float = 7.0


class Needs(NamedTuple):
    """Cores are of the reference; a process uses one. All of it is over all nodes and primaries together."""

    primaries: int  # each with a cluster of its own, and an equal part of what follows
    database_cores: int
    processes: int
    armed_timers: int
    armed_bytes: int
    buffered_timers: int  # where a buffer is used: in its two hours
    buffered_bytes: int  # once; each replica of that Redis takes as much again
    waiting_bytes: int
    history_bytes: int
    log_bytes_per_s: int
    log_bytes_per_day: int


def needs(load: Load) -> Needs:
    """What a cluster needs for that load."""
    more_bytes = max(0, load.payload_bytes - PAYLOAD_BYTES)
    armed = round(min(load.jobs, load.jobs * HOUR_S / (load.horizon_days * DAY_S) + load.peak_per_s))
    due = load.jobs * BUFFER_S / (load.horizon_days * DAY_S)
    buffered = round(min(load.jobs, max(due, load.mean_per_s * BUFFER_S)))
    processes = max(1, ceil(load.peak_per_s * (INGEST_US + FIRE_US) / 1e6 / BUSY_SHARE))
    kept = load.mean_per_s * DAY_S * load.retention_days
    log_bytes = LOG_BYTES + more_bytes
    waiting_bytes = WAITING_BYTES + more_bytes
    return Needs(
        primaries=max(1, ceil(load.peak_per_s / PRIMARY_PER_S)),
        database_cores=max(1, ceil(load.peak_per_s * DATABASE_US / 1e6 / BUSY_SHARE)),
        processes=processes,
        armed_timers=armed,
        armed_bytes=armed * ARMED_BYTES + processes * NODE_BYTES,
        buffered_timers=buffered,
        buffered_bytes=buffered * BUFFERED_BYTES,
        waiting_bytes=load.jobs * waiting_bytes,
        history_bytes=round(kept * (waiting_bytes + HISTORY_BYTES)),
        log_bytes_per_s=round(load.peak_per_s * log_bytes),
        log_bytes_per_day=round(load.mean_per_s * DAY_S * log_bytes),
    )
