"""What `tickwheel doctor` looks at in a PostgreSQL store."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tickwheel.config import Settings
from tickwheel.domain.errors import TickwheelError
from tickwheel.interfaces.cli.findings import Finding, Level
from tickwheel.wiring import inspect_shared_store, shown_store

if TYPE_CHECKING:
    from tickwheel.wiring import Inspection

CLOCK_WARN_MS: Final = 500
CLOCK_FAIL_MS: Final = 5_000
COMMIT_WARN_MS: Final = 50
TRANSACTION_WARN_S: Final = 600
CONNECTIONS_PER_NODE: Final = 13
DAY_MS: Final = 86_400_000
AHEAD_WARN_MS: Final = 2 * DAY_MS


def check_postgresql(settings: Settings) -> Iterator[Finding]:
    """All findings; one that fails where the server can't be reached."""
    try:
        seen = inspect_shared_store(settings.store)
    except TickwheelError as error:
        yield Finding("store", Level.FAIL, str(error))
        return
    yield _store(settings, seen)
    yield from _durability(seen)
    yield _partitions(seen)
    yield _clock(seen)
    yield _latency(seen)
    yield from _load(seen, settings.processes)


def _store(settings: Settings, seen: "Inspection") -> Finding:
    shown = f"{shown_store(settings)}: PostgreSQL {seen.version}"
    if seen.is_standby:
        return Finding("store", Level.FAIL, f"{shown}, a standby", "Name the primary, or all servers, in --store.")
    if seen.pending:
        remedy = "The next start does them; `tickwheel migrate --plan` shows their SQL."
        return Finding("store", Level.OK, f"{shown}, migrations to do: {len(seen.pending)}", remedy)
    if seen.cluster not in ("", settings.cluster):
        text = f"{shown}, which belongs to the cluster {seen.cluster!r}, not {settings.cluster!r}"
        return Finding("store", Level.FAIL, text, f"Name another database, or give --cluster {seen.cluster}.")
    nodes = "" if seen.beating_nodes is None else f", nodes beating in it: {seen.beating_nodes}"
    return Finding("store", Level.OK, f"{shown}, schema up to date, {seen.shard_count} shards{nodes}")


def _durability(seen: "Inspection") -> Iterator[Finding]:
    for text in seen.unsafe:
        yield Finding("durability", Level.WARN, text)
    if not seen.unsafe:
        yield Finding("durability", Level.OK, "fsync, full_page_writes and synchronous_commit are on")
    synchronous = [standby for standby in seen.standbys if standby.is_synchronous]
    shown = ", ".join(f"{standby.name} ({standby.sync_state})" for standby in seen.standbys)
    if synchronous:
        yield Finding("replicas", Level.OK, shown)
    elif seen.standbys:
        remedy = "Set synchronous_standby_names, or a failover may forget jobs that were acknowledged."
        yield Finding("replicas", Level.WARN, f"{shown}: none is synchronous", remedy)
    else:
        remedy = "Add a synchronous standby for jobs that must survive it."
        yield Finding("replicas", Level.WARN, "none: the loss of the server's disk loses all jobs", remedy)


def _partitions(seen: "Inspection") -> Finding:
    if seen.leaves_until_ms is None:
        return Finding("partitions", Level.OK, "none yet; nodes make them")
    days = (seen.leaves_until_ms - seen.server_ms) / DAY_MS
    text = f"made {days:.1f} days ahead"
    if days * DAY_MS < AHEAD_WARN_MS:
        remedy = "The node that leads makes them; look for its loop failures in the logs."
        return Finding("partitions", Level.WARN, text, remedy)
    return Finding("partitions", Level.OK, text)


def _clock(seen: "Inspection") -> Finding:
    difference_ms = seen.clock_difference_ms
    text = f"this machine's clock minus the database's: {difference_ms:+,} ms"
    remedy = "Set this machine's clock (chrony, systemd-timesyncd); from 5 s on nodes refuse to start."
    if abs(difference_ms) >= CLOCK_FAIL_MS:
        return Finding("database clock", Level.FAIL, text, remedy)
    if abs(difference_ms) >= CLOCK_WARN_MS:
        return Finding("database clock", Level.WARN, text, remedy)
    return Finding("database clock", Level.OK, text)


def _latency(seen: "Inspection") -> Finding:
    text = f"round trip {seen.round_trip_ms:.1f} ms"
    if seen.commit_ms is None:
        return Finding("latency", Level.OK, text)
    text += f", durable commit {seen.commit_ms:.1f} ms"
    if seen.commit_ms > COMMIT_WARN_MS:
        remedy = "Each claim and each answer to a new job waits that long: a quicker disk, or a nearer standby."
        return Finding("latency", Level.WARN, text, remedy)
    return Finding("latency", Level.OK, text)


def _load(seen: "Inspection", processes: int) -> Iterator[Finding]:
    wanted = processes * CONNECTIONS_PER_NODE
    who = "a node takes" if processes == 1 else f"{processes} processes take"
    text = f"{seen.connections} of {seen.max_connections} in use; {who} about {wanted}"
    if seen.max_connections - seen.connections < wanted:
        remedy = "Raise max_connections before you add a node" + (
            ", or lower --processes." if processes > 1 else "."
        )
        yield Finding("connections", Level.WARN, text, remedy)
    else:
        yield Finding("connections", Level.OK, text)
    if seen.oldest_transaction_seconds > TRANSACTION_WARN_S:
        text = f"one has been open for {seen.oldest_transaction_seconds:,} s"
        remedy = (
            "It keeps dead rows and old partitions from being cleaned up; end it (pg_stat_activity shows whose)."
        )
        yield Finding("transactions", Level.WARN, text, remedy)
