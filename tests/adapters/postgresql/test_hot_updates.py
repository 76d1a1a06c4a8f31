"""Completions write no index entry: that is what keeps the ledger free of bloat."""

import time

import numpy as np
import psycopg

from tickwheel.domain.columns import CLAIM, COMPLETION, RENEWAL, ClaimVerdict
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena, rows_of
from ...conformance.store.owner import LEASE_MS, Owner
from ...servers.postgresql_databases import emptied_store
from .backend import UrlBackend

COUNT = 2_000
BATCH = 250
HOT_SHARE = 0.95
PATIENCE_SECONDS = 20


async def test_nearly_all_completions_and_heartbeats_are_hot_updates() -> None:
    url, clock = emptied_store(), VirtualClock()
    before = ledger_updates(url)
    arena = Arena(UrlBackend(url, clock), clock)
    await arena.open()
    owner = await Owner(arena).acquire()
    jobs = [arena.one_off(shard=number % 256) for number in range(COUNT)]
    await arena.insert(*jobs)
    for start in range(0, COUNT, BATCH):
        claims = [
            owner.claim_row(new) | {"fence": owner.token(new.job.job_id)} for new in jobs[start : start + BATCH]
        ]
        answers = await arena.store.claim(rows_of(CLAIM, *claims), arena.now_ms, arena.now_ms + LEASE_MS)
        assert (answers["verdict"] == ClaimVerdict.WON).all()
        keys = [{name: claim[name] for name in ("job_id", "scheduled_ms", "fence")} for claim in claims]
        beat = {"started_ms": arena.now_ms, "lease_ms": arena.now_ms + LEASE_MS, "beat_ms": arena.now_ms}
        if start < COUNT // 2:
            beats = [{**key, **beat, "mark_running": 1} for key in keys]
            assert (await arena.store.renew(rows_of(RENEWAL, *beats))).all()
        end = {
            "due_ms": arena.now_ms,
            "gen": 1,
            "flags": 0,
            "state": RunState.SUCCEEDED,
            "cause": 0,
            "outcome": OutcomeClass.SUCCESS,
            "http_status": 200,
            "attempt": 1,
            "lost_count": 0,
            "started_ms": arena.now_ms,
            "finished_ms": arena.now_ms,
            "retry_ms": -1,
        }
        done = await arena.store.complete(rows_of(COMPLETION, *({**key, **end} for key in keys)), {})
        assert np.asarray(done.applied).all()
    await arena.store.aclose()  # a session hands in its statistics when it ends
    end_s = time.monotonic() + PATIENCE_SECONDS
    while (updates := ledger_updates(url)[0]) - before[0] < COUNT + COUNT // 2:
        assert time.monotonic() < end_s, f"the statistics tell of {updates - before[0]} updates only"
        time.sleep(0.05)
    updates, hot = ledger_updates(url)
    assert updates - before[0] == COUNT + COUNT // 2
    assert hot - before[1] >= HOT_SHARE * (updates - before[0])
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM tickwheel.leases").fetchone() == (0,), (
            "leases went with them"
        )


def ledger_updates(url: str) -> tuple[int, int]:
    """Updates of the ledger, and how many of them were HOT."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            """SELECT coalesce(sum(n_tup_upd), 0)::int8, coalesce(sum(n_tup_hot_upd), 0)::int8
                 FROM pg_stat_user_tables WHERE schemaname = 'tickwheel' AND relname LIKE 'runs_%'"""
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
