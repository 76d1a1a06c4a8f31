"""Claims: timers that are due become ledger rows.

Nearly all claims are plain: the first claim of a run that may simply start. Those of one-off jobs whose shard has
had no change since their definitions were read take one INSERT in autocommit (`claim_once`). Other plain ones, and
those that the first statement did not win, have their jobs looked at again (`claim_first`), which also inserts
the next timers of recurring jobs. Whatever is not plain (retries, skips, overlap rules), and whatever is still not
won, is looked at under locks in a short transaction and decided row by row (`domain.claim_decisions`), so each row
gets its own verdict.

What is locked, always in this order: the node's row (shared: a deposer waits for us, or we join nothing), the jobs
or the counts of changes of their shards (shared: changes wait), the ledger rows, what limits of concurrency count
(`slots`). All of it runs over one connection, so two claims of one job are never open at once (D2), and is bounded
by timeouts of the session, so a takeover waits for at most a second.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import psycopg

from tickwheel.adapters.postgresql.arrays import int2s, int4s, int8s, uuids, uuids_of
from tickwheel.adapters.postgresql.batches import (
    Bindings,
    bounds,
    decided,
    homes_of,
    in_key_order,
    job_keys,
    run_keys,
)
from tickwheel.adapters.postgresql.leaves import Needs, with_leaves
from tickwheel.adapters.postgresql.partitions import Sealed
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.slots import open_book, write_slots
from tickwheel.adapters.postgresql.statements import in_leaves, load_statements
from tickwheel.domain.claim_decisions import (
    ClaimDecisions,
    ClaimWrites,
    Leave,
    NewRow,
    NewTimer,
    Open,
    OpenRuns,
    Seen,
    Start,
)
from tickwheel.domain.columns import (
    CLAIMED,
    FLAG_LANE_MASK,
    FLAG_RECURRING,
    Bools,
    ClaimAction,
    ClaimVerdict,
    Ints,
    OverlapCode,
    Rows,
    empty,
)
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ledger_moves import Claim
from tickwheel.domain.run import FENCE_SEQUENCE_BITS, RunState
from tickwheel.domain.stated_limits import stated_limits

SQL: Final = load_statements("claim")
_SHARD_BITS: Final = 16
_NO_JOB: Final = (None, 0, 0, 0, "", "", None)
_NO_RUN: Final = (None, 0, 0, 0, 0, 0, None)


class Claimant(NamedTuple):
    """Who claims, under which clock; `pin_ms` None: the server's. `now_ms` is this process's estimate of it.

    `queued`: for workers elsewhere, so without worker and lease (None).
    """

    incarnation: str
    pin_ms: int | None
    lease_ms: int | None
    now_ms: int
    queued: bool = False

    @property
    def state(self) -> int:
        """Of the rows that are won."""
        return int(RunState.CLAIMED if self.queued else RunState.DISPATCHED)


def claimant_of(incarnation: str, pin_ms: int | None, lease_ms: int, now_ms: int, *, queued: bool) -> Claimant:
    """For `Ledger.claim`."""
    return Claimant(incarnation, pin_ms, None if queued else lease_ms, now_ms, queued)


class _Lost(psycopg.errors.SerializationFailure):
    """Somebody wrote a row between our look and our write; nothing is written, and the claim is tried again."""


def claim(session: Session, claimant: Claimant, batch: Rows) -> Rows:
    """CLAIMED rows for CLAIM rows."""
    answers = empty(CLAIMED, len(batch))
    plain = _is_plain(batch)
    if not plain.all():
        # Of one job all or none, or an occurrence would start under a higher token before its neighbour's retry
        # does under a lower one, and the tokens of a job have to rise.
        keys = _short_keys(batch)
        plain &= ~np.isin(keys, keys[~plain])
    rest = ~plain
    if plain.any():
        numbers = np.flatnonzero(plain)
        numbers = numbers[in_key_order(batch[numbers])]
        unchanged = batch["changes"][numbers] > 0
        left = numbers[~unchanged]
        if unchanged.any():
            some = numbers[unchanged]
            won = _start_once(session, claimant, batch[some])
            _tell_started(answers, some[won], batch, claimant.lease_ms or 0)
            left = numbers[~np.isin(numbers, some[won])]
        if len(left):
            won = _start(session, claimant, batch[left])
            _tell_started(answers, left[won], batch, claimant.lease_ms or 0)
            rest[left[~won]] = True
    if rest.any():
        answers[rest] = _claim_carefully(session, claimant, batch[rest])
    return answers


def _is_plain(batch: Rows) -> Bools:
    follows: Bools = (batch["flags"] & FLAG_RECURRING == 0) | (batch["next_ms"] >= 0)
    free: Bools = (batch["action"] == ClaimAction.RUN) & (batch["overlap"] == OverlapCode.ALLOW)
    plain: Bools = (batch["gen"] > 0) & free & follows & (batch["limited"] == 0)
    return plain


def _short_keys(batch: Rows) -> Ints:
    """The second half of each job id: two jobs that have it in common are treated as one, which does no harm."""
    halves: Ints = np.ascontiguousarray(batch["job_id"]).view(np.int64)
    return halves[1::2]


def _start_once(session: Session, claimant: Claimant, batch: Rows) -> Bools:
    """Which of these rows of one-off jobs were won without a look at the jobs."""
    bindings = once_bindings(claimant, batch)
    try:
        count = with_leaves(
            session,
            partial(_insert_once, session, batch, bindings, claimant.now_ms),
            partial(_needs, batch),
            claimant.pin_ms,
        )
    except psycopg.errors.UniqueViolation:  # nothing is written
        session.committing = False
        return np.zeros(len(batch), dtype=np.bool_)
    except Sealed:
        return np.zeros(len(batch), dtype=np.bool_)
    won: Bools = np.full(len(batch), count == len(batch))
    if 0 < count < len(batch):  # the tokens tell which; if that can't be read, it is not known what was won
        wanted = {**bindings, **bounds("scheduled", batch["scheduled_ms"])}
        won[[number - 1 for (number,) in session.write(SQL["held_by"], wanted)]] = True
    return won


def _insert_once(session: Session, batch: Rows, bindings: Bindings, now_ms: int) -> int:
    instants = batch["scheduled_ms"]
    runs = session.near_leaves.relation("runs", int(instants.min()), int(instants.max()), now_ms)
    return session.write_count(in_leaves(SQL["claim_once"], ("runs", runs)), bindings)


def once_bindings(claimant: Claimant, batch: Rows) -> Bindings:
    """The parameters of `claim_once` for CLAIM rows in key order."""
    shards = shards_of(batch["job_id"])
    firsts = np.flatnonzero(np.diff(shards, prepend=-1))
    counts: Ints = np.minimum.reduceat(batch["changes"], firsts)  # of two looks at a shard the older one
    return {
        **_shared_bindings(claimant, batch, shards),
        "lane": int2s(batch["flags"] & FLAG_LANE_MASK),
        "armed": int8s(batch["armed_ms"]),
        "shard_set": int2s(shards[firsts]),
        "epoch_set": int8s(batch["fence"][firsts] >> FENCE_SEQUENCE_BITS),
        "change_set": int8s(counts),
    }


def _shared_bindings(claimant: Claimant, batch: Rows, shards: Ints) -> Bindings:
    return {
        "me": claimant.incarnation,
        "pin": claimant.pin_ms,
        "lease": claimant.lease_ms,
        "state": claimant.state,
        "shard": int2s(shards),
        "scheduled": int8s(batch["scheduled_ms"]),
        "id": uuids(batch["job_id"]),
        "due": int8s(batch["due_ms"]),
        "gen": int4s(batch["gen"]),
        "fence": int8s(batch["fence"]),
        "last": int2s(batch["max_attempts"] <= 1),
    }


def _start(session: Session, claimant: Claimant, batch: Rows) -> Bools:
    """Which of the rows were won; the others met something else."""
    bindings = first_bindings(claimant, batch)
    try:
        rows = with_leaves(
            session, partial(session.write, SQL["claim_first"], bindings), partial(_needs, batch), claimant.pin_ms
        )
    except Sealed:
        return np.zeros(len(batch), dtype=np.bool_)
    [[count, numbers]] = rows
    won: Bools = np.full(len(batch), count == len(batch))
    if numbers:
        won[np.asarray(numbers) - 1] = True
    return won


def first_bindings(claimant: Claimant, batch: Rows) -> Bindings:
    """The parameters of `claim_first` for CLAIM rows in key order."""
    homes = homes_of(batch["job_id"])
    recurring = batch["flags"] & FLAG_RECURRING != 0
    return {
        **_shared_bindings(claimant, batch, shards_of(batch["job_id"])),
        "total": len(batch),
        "home": int4s(homes),
        "homes": int4s(np.unique(homes)),
        "next": int8s(np.where(recurring, batch["next_ms"], -1)),
        "flags": int2s(batch["flags"]),
        **bounds("due", batch["due_ms"]),
    }


def _needs(batch: Rows) -> Needs:
    following = batch["next_ms"][batch["next_ms"] >= 0]
    return {"runs": batch["scheduled_ms"].tolist(), "timers": following.tolist()}


def _tell_started(answers: Rows, which: Ints, batch: Rows, lease_ms: int) -> None:
    answers["verdict"][which] = ClaimVerdict.WON
    answers["attempt"][which] = 1
    answers["version"][which] = batch["gen"][which]
    answers["fence"][which] = batch["fence"][which]
    answers["lease_ms"][which] = lease_ms


def _claim_carefully(session: Session, claimant: Claimant, batch: Rows) -> Rows:
    """Rows that lie in a sealed leaf stay unresolved, alone; the others are decided without them (C6)."""
    wanted: list[tuple[str, int]] = []
    try:
        return with_leaves(
            session,
            partial(_decide, session, claimant, batch, wanted),
            partial(_by_table, wanted),
            claimant.pin_ms,
        )
    except Sealed:
        if len(batch) == 1:
            return empty(CLAIMED, 1)
    answers = empty(CLAIMED, len(batch))
    for number in range(len(batch)):
        answers[number] = _claim_carefully(session, claimant, batch[number : number + 1])[0]
    return answers


def _by_table(wanted: Iterable[tuple[str, int]]) -> Needs:
    needs: dict[str, list[int]] = {}
    for table, instant_ms in wanted:
        needs.setdefault(table, []).append(instant_ms)
    return needs


def _decide(session: Session, claimant: Claimant, batch: Rows, wanted: list[tuple[str, int]]) -> Rows:
    answers = empty(CLAIMED, len(batch))
    wanted.clear()
    with session.transaction():
        worker, now_ms, held = _hold(session, claimant, batch)
        due = batch["due_ms"] <= now_ms
        answers["verdict"][~held] = ClaimVerdict.DEPOSED
        answers["verdict"][held & ~due] = ClaimVerdict.NOT_DUE
        open_ones = np.flatnonzero(held & due)
        if not len(open_ones):
            return answers
        claims = [Claim(*values) for values in batch[open_ones].tolist()]
        seen = _observe(session, claims)
        overlapping = {claim.job_id for claim in claims if claim.overlap != OverlapCode.ALLOW}
        starter = None if claimant.queued else worker
        open_runs = _read_open(session, overlapping)
        book = open_book(session, seen)
        decisions = ClaimDecisions(starter, now_ms, claimant.lease_ms, open_runs, book, queued=claimant.queued)
        for number, answer in zip(open_ones, decisions.decide(claims, seen), strict=True):
            answers[number] = answer
        writes = decisions.writes
        wanted.extend(("runs", row.scheduled_ms) for row in writes.rows)
        wanted.extend(("timers", max(row.due_ms, now_ms)) for row in writes.timers)
        wanted.extend(("timers", max(row.due_ms, now_ms)) for row in writes.leaves)
        shared = {
            "me": starter,
            "started_as": claimant.state,
            "now": now_ms,
            "lease": claimant.lease_ms,
            "pin": claimant.pin_ms,
        }
        _write(session, writes, {claim.job_id: claim.flags for claim in claims}, shared)
    return answers


def _hold(session: Session, claimant: Claimant, batch: Rows) -> tuple[int, int, Bools]:
    """This node's number (-1: deposed), the time, and which claims are under an epoch that is held."""
    shards, epochs = shards_of(batch["job_id"]), batch["fence"] >> FENCE_SEQUENCE_BITS
    held_as = epochs << _SHARD_BITS | shards
    asked = np.unique(held_as)
    bindings = {
        "me": claimant.incarnation,
        "pin": claimant.pin_ms,
        "shards": int2s(asked & (1 << _SHARD_BITS) - 1),
        "epochs": int8s(asked >> _SHARD_BITS),
    }
    [[number, now_ms, found]] = session.rows(SQL["hold"], bindings)
    held: Bools = np.isin(held_as, np.asarray(found, dtype=np.int64))
    return -1 if number is None else number, now_ms, held


def _observe(session: Session, claims: Sequence[Claim]) -> list[Seen]:
    """What the claims have to know, read under the locks that keep it so."""
    ids = sorted({claim.job_id for claim in claims})
    jobs = {row[0].bytes: row[1:] for row in session.rows(SQL["lock_jobs"], job_keys(ids))}
    keys = sorted({(c.job_id, c.scheduled_ms) for c in claims}, key=lambda k: (k[0][6:8], k[1], k[0]))
    runs = {keys[row[0] - 1]: row[1:] for row in session.rows(SQL["lock_runs"], run_keys(keys))}
    fresh = [n for n, c in enumerate(claims) if c.gen > 0 and (c.job_id, c.scheduled_ms) not in runs]
    armed = _read_armed(session, [claims[n] for n in fresh]) if fresh else {}
    armed_ms = {n: armed.get(place) for place, n in enumerate(fresh)}
    seen = []
    for number, claim in enumerate(claims):
        state, version, lane, flags, *rest = jobs.get(claim.job_id, _NO_JOB)
        run: tuple[Any, ...] = runs.get((claim.job_id, claim.scheduled_ms), _NO_RUN)
        known = (state, version, lane, flags & FLAG_RECURRING, *run[:7], armed_ms.get(number))
        seen.append(Seen._make((*known, stated_limits(*rest, claim.tenant_limit))))
    return seen


def _read_armed(session: Session, claims: Sequence[Claim]) -> dict[int, int]:
    bindings = {
        "shards": int2s([int.from_bytes(claim.job_id[6:8], "big") for claim in claims]),
        "due": int8s([claim.due_ms for claim in claims]),
        "ids": uuids_of([claim.job_id for claim in claims]),
        "scheduled": int8s([claim.scheduled_ms for claim in claims]),
        "gens": int4s([claim.gen for claim in claims]),
        **bounds("due", [claim.due_ms for claim in claims]),
    }
    return {number - 1: armed_ms for number, armed_ms in session.rows(SQL["armed"], bindings)}


def _read_open(session: Session, job_ids: set[bytes]) -> OpenRuns:
    found = OpenRuns()
    if not job_ids:
        return found
    keys = session.rows(SQL["open_keys"], {"ids": uuids_of(sorted(job_ids))})
    if keys:
        bindings = run_keys([(job_id.bytes, scheduled_ms) for job_id, scheduled_ms in keys])
        for job_id, scheduled_ms, state, fence in session.rows(SQL["open_runs"], bindings):
            found.setdefault(job_id.bytes, {})[scheduled_ms] = Open(state, fence)
    return found


def _write(session: Session, writes: ClaimWrites, flags: dict[bytes, int], shared: Bindings) -> None:
    """All of it, or `_Lost`. Resolved timers stay where they are: they leave with their leaf."""
    _run(session, "insert_runs", writes.rows, NewRow._fields, shared)
    _run(session, "start_waiting", writes.starts, Start._fields, shared)
    _run(session, "leave_waiting", writes.leaves, Leave._fields, shared)
    timers = [*writes.timers, *(_recheck(row, flags) for row in writes.leaves if row.finished_ms is None)]
    if timers:
        session.run(SQL["insert_timers"], {**decided(timers, NewTimer._fields), **shared})
    write_slots(session, writes.slots, writes.starts)
    if writes.completed:
        session.run(SQL["complete_jobs"], {"ids": uuids_of(sorted(writes.completed))})


def _recheck(row: Leave, flags: dict[bytes, int]) -> NewTimer:
    return NewTimer(row.job_id, row.due_ms, row.scheduled_ms, -row.gen, flags[row.job_id])


def _run(
    session: Session, name: str, rows: Sequence[tuple[Any, ...]], fields: Sequence[str], shared: Bindings
) -> None:
    if rows and session.run(SQL[name], {**decided(rows, fields), **shared}) != len(rows):
        raise _Lost("a ledger row changed under a claim")
