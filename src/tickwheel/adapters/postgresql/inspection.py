"""Looks at a server and a database for `tickwheel doctor`; changes no row.

The durable round trip writes a message to the WAL and commits, so it waits for the disk, and for synchronous
standbys.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tickwheel.adapters.postgresql.admission import unsafe_settings, visit
from tickwheel.adapters.postgresql.migrate import Connection, unapplied
from tickwheel.adapters.postgresql.partitions import BY_INSTANT, list_leaves

TRIES: Final = 5
BEATING_MS: Final = 3_000

_SERVER: Final = """SELECT current_setting('server_version'), pg_is_in_recovery(),
  current_setting('max_connections')::int,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"""
_CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
_DURABLE: Final = "SELECT pg_logical_emit_message(true, 'tickwheel', 'doctor')"
_STANDBYS: Final = """SELECT coalesce(nullif(application_name, ''), 'unnamed'), coalesce(sync_state, 'unknown')
  FROM pg_stat_replication ORDER BY 1"""
_OLDEST: Final = """SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::int
  FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_META: Final = "SELECT cluster, shard_count FROM tickwheel.meta"
_BEATING: Final = """SELECT count(*) FROM tickwheel.beats
  WHERE changed_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 - %s"""


class Standby(msgspec.Struct, frozen=True):
    """A streaming copy; `sync_state` as PostgreSQL calls it (sync, quorum, potential, async)."""

    name: str
    sync_state: str

    @property
    def is_synchronous(self) -> bool:
        """Whether commits wait for it."""
        return self.sync_state in ("sync", "quorum")


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    version: str
    is_standby: bool
    pending: tuple[str, ...]
    cluster: str
    shard_count: int
    unsafe: tuple[str, ...]
    standbys: tuple[Standby, ...]
    leaves_until_ms: int | None  # room is made ahead until then; None before the first node started
    server_ms: int  # the server's clock
    clock_difference_ms: int  # this machine's clock minus the server's
    round_trip_ms: float
    commit_ms: float | None  # None: this server takes no writes
    connections: int
    max_connections: int
    oldest_transaction_seconds: int
    beating_nodes: int | None  # None: they beat elsewhere, or the schema is not there yet


def inspect(url: str, wall_ms: Callable[[], int], monotonic_us: Callable[[], int]) -> Inspection:
    """Look, by this machine's clocks. Blocks. Raises `ConfigError` and `StoreUnavailable` as `admit` does."""
    tries = _Tries(wall_ms, monotonic_us)
    with visit(url) as connection:
        version, is_standby, most, used = _row(connection, _SERVER)
        pending = tuple(step.label for step in unapplied(connection))
        whole = not pending
        round_trip_ms, difference_ms, server_ms = tries.ask_clock(connection)
        cluster, shard_count = _row(connection, _META) if whole else ("", 0)
        return Inspection(
            version=version,
            is_standby=is_standby,
            pending=pending,
            cluster=cluster,
            shard_count=shard_count,
            unsafe=unsafe_settings(connection),
            standbys=tuple(Standby(*row) for row in connection.execute(_STANDBYS.encode()).fetchall()),
            leaves_until_ms=_leaves_until(connection, server_ms) if whole else None,
            server_ms=server_ms,
            clock_difference_ms=difference_ms,
            round_trip_ms=round_trip_ms,
            commit_ms=None if is_standby else tries.quickest_ms(lambda: _row(connection, _DURABLE)),
            connections=used,
            max_connections=most,
            oldest_transaction_seconds=_row(connection, _OLDEST)[0],
            beating_nodes=int(_row(connection, _BEATING, BEATING_MS)[0]) if whole and not is_standby else None,
        )


class _Tries:
    """The quickest of a few."""

    def __init__(self, wall_ms: Callable[[], int], monotonic_us: Callable[[], int]) -> None:
        self._wall_ms, self._monotonic_us = wall_ms, monotonic_us

    def ask_clock(self, connection: Connection) -> tuple[float, int, int]:
        """(round trip, this machine's clock minus the server's as seen in it, the server's)."""
        seen = []
        for _ in range(TRIES):
            began_us, before_ms = self._monotonic_us(), self._wall_ms()
            [server_ms] = _row(connection, _CLOCK)
            took_ms = (self._monotonic_us() - began_us) / 1000
            seen.append((took_ms, round(before_ms + took_ms / 2 - server_ms), int(server_ms)))
        return min(seen)

    def quickest_ms(self, act: Callable[[], object]) -> float:
        """How long it takes."""
        took = []
        for _ in range(TRIES):
            began_us = self._monotonic_us()
            act()
            took.append((self._monotonic_us() - began_us) / 1000)
        return min(took)


def _leaves_until(connection: Connection, now_ms: int) -> int | None:
    """Until when each table has a leaf for every instant from now on; None where there is none for now."""
    ends = []
    for table in BY_INSTANT:
        end = now_ms
        for leaf in list_leaves(connection, table):
            if leaf.start <= end < leaf.end:
                end = leaf.end
        if end == now_ms:
            return None
        ends.append(end)
    return min(ends)


def _row(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(statement.encode(), values or None).fetchone()
    return row if row is not None else (None,) * 4
