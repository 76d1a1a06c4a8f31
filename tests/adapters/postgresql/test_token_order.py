"""In which order the tokens of a job are committed."""

import psycopg

from tickwheel.domain.run import RunState
from tickwheel.ports.store import FirstTimer
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena
from ...conformance.store.owner import Owner
from ...servers.postgresql_databases import emptied_store
from .backend import UrlBackend

PERIOD_MS = 1_000


async def test_a_retry_and_the_next_occurrence_in_one_batch_commit_their_tokens_in_order() -> None:
    """The retry has the lower token. Were it committed second, a target that guards its job would refuse it."""
    url, clock = emptied_store(), VirtualClock()
    arena = Arena(UrlBackend(url, clock), clock)
    await arena.open()
    owner = await Owner(arena).acquire()
    new = arena.recurring()
    await arena.insert(new)
    next_ms = arena.now_ms + PERIOD_MS
    held = await owner.win(new, next_ms=next_ms)
    ended = await owner.complete(held, RunState.SCHEDULED, retry_ms=next_ms)
    clock.step_ms(PERIOD_MS)
    answers = await owner.claim_rows(
        owner.claim_row(new, ended.follow_up, next_ms=-1),
        owner.claim_row(new, FirstTimer(next_ms, next_ms, 1), next_ms=next_ms + PERIOD_MS),
    )
    assert all(answer.won for answer in answers)
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT fence, xmin::text::int8 FROM tickwheel.runs WHERE job_id = %s ORDER BY fence",
            (new.job.job_id.hex(),),
        ).fetchall()
    transactions = [xid for _, xid in rows]
    assert len(rows) == 2
    assert transactions == sorted(transactions)
    await arena.store.aclose()
