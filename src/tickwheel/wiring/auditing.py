"""`tickwheel audit`: one walk over a store, beside the processes that use it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import msgspec

from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.audit import AuditSource
from tickwheel.services.audit import Audit, AuditReport, Progress
from tickwheel.wiring.schema import sqlite_path
from tickwheel.wiring.shared_store import is_shared, require_driver
from tickwheel.wiring.stores import store_url

if TYPE_CHECKING:
    from tickwheel.adapters.postgresql.store import PostgresqlStore

DAY_MS: Final = 86_400_000
CHAINS_PIECE: Final = 1_000


class FullAudit(msgspec.Struct, frozen=True):
    """The report, and what else an operator wants to know with it."""

    report: AuditReport
    dead_letters: int
    broken_chains: int
    old_partitions: Mapping[str, int]  # by table: their time is over, and something still keeps them


async def audit_store(settings: Settings, progress: Progress, expect: Progress) -> FullAudit:
    """Walk over everything; `expect` is told first how many jobs there are about.

    Raises `ConfigError` and `StoreUnavailable`.
    """
    url, clock = store_url(settings), SystemClock()
    source = await _open(url, clock)
    try:
        counts = await source.counts()
        expect(counts.jobs)
        report = await Audit(store=source, clock=clock).run(progress=progress)
        old: Mapping[str, int] = {}
        if is_shared(url):
            before_ms = clock.now_ms() - (settings.retention_days + 2) * DAY_MS
            old = await cast("PostgresqlStore", source).old_leaves(before_ms)
        return FullAudit(report, counts.dead_letters, await _broken_chains(source), old)
    finally:
        await source.aclose()


async def _open(url: str, clock: SystemClock) -> AuditSource:
    if is_shared(url):
        require_driver()
        from tickwheel.adapters.postgresql.store import open_postgresql_store

        return await open_postgresql_store(url, clock)
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        raise ConfigError([FieldProblem("store", "memory: can't be looked into from another process")])
    from tickwheel.adapters.sqlite.audit_reader import SqliteAuditReader

    return SqliteAuditReader(sqlite_path(rest))


async def _broken_chains(source: AuditSource) -> int:
    count, after = 0, b""
    while True:
        page = await source.broken_chains(after, CHAINS_PIECE)
        count += len(page.broken)
        if page.after is None:
            return count
        after = page.after
