"""A witness inside the database: notes every move of every run, as committed, by triggers of our own.

The product's tables show the latest state only. This shows what can't be seen from outside: a run that succeeded
twice, an end that was left again, a token that fell, a move made by a process that was deposed long ago.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .postgresql import PostgresServer

SETTINGS = {"track_commit_timestamp": "on"}
"""What the server has to be started with: moves are put in the order of their commits."""

_INSTALL = """
CREATE SCHEMA witness;
CREATE TABLE witness.moves (
  job_id uuid, scheduled_ms int8, old_state int2, new_state int2, old_fence int8, new_fence int8, worker int4,
  xid xid8 DEFAULT pg_current_xact_id(), at_ms int8 DEFAULT extract(epoch FROM clock_timestamp()) * 1000
);
CREATE FUNCTION witness.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO witness.moves (job_id, scheduled_ms, old_state, new_state, old_fence, new_fence, worker)
    VALUES (NEW.job_id, NEW.scheduled_ms, NULL, NEW.state, 0, NEW.fence, NEW.worker);
  ELSE
    INSERT INTO witness.moves (job_id, scheduled_ms, old_state, new_state, old_fence, new_fence, worker)
    VALUES (NEW.job_id, NEW.scheduled_ms, OLD.state, NEW.state, OLD.fence, NEW.fence, NEW.worker);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER witness_insert AFTER INSERT ON tickwheel.runs FOR EACH ROW EXECUTE FUNCTION witness.note();
CREATE TRIGGER witness_update AFTER UPDATE ON tickwheel.runs FOR EACH ROW
  WHEN (OLD.state <> NEW.state OR OLD.fence <> NEW.fence) EXECUTE FUNCTION witness.note();
"""
_MOVES = """
SELECT job_id::text, scheduled_ms, old_state, new_state, old_fence, new_fence, worker, at_ms, xid::text
FROM witness.moves
ORDER BY pg_xact_commit_timestamp(xid::xid), ctid
"""
SUCCEEDED, CANCELLED, SKIPPED = 4, 6, 7
FINAL = (SUCCEEDED, CANCELLED, SKIPPED)


class Move(NamedTuple):
    """A run went from one state to another; `old_state` None: its row was inserted."""

    job_id: str
    scheduled_ms: int
    old_state: int | None
    new_state: int
    old_fence: int
    new_fence: int
    worker: int | None
    at_ms: int
    transaction: str


class Witness:
    """Installed once, in a database that has Tickwheel's tables."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._server, self._database = server, database

    def install(self) -> None:
        """From now on every move is noted."""
        with self._server.connect(self._database) as connection:
            connection.execute(_INSTALL.encode())

    def moves(self) -> Sequence[Move]:
        """In the order of their commits."""
        return [Move(*row) for row in self._server.execute(_MOVES, database=self._database)]

    def moves_by(self, worker: int, since_ms: int) -> Sequence[Move]:
        """What one process (its number in `tickwheel.nodes`) did from then on."""
        return [move for move in self.moves() if move.worker == worker and move.at_ms >= since_ms]


def findings_in(moves: Sequence[Move]) -> dict[str, list[str]]:
    """What may not be: by kind, as the checker's findings are."""
    found: dict[str, list[str]] = defaultdict(list)
    succeeded: dict[tuple[str, int], int] = defaultdict(int)
    tokens: dict[str, list[tuple[str, int]]] = defaultdict(list)  # (transaction, token) by job
    for move in moves:
        run = (move.job_id, move.scheduled_ms)
        if move.old_state in FINAL and move.new_state != move.old_state:
            found["left_its_end"].append(f"{run}: {move.old_state} -> {move.new_state}")
        if move.new_state == SUCCEEDED and move.old_state != SUCCEEDED:
            succeeded[run] += 1
        if move.new_fence < move.old_fence:
            found["token_fell"].append(f"{run}: {move.old_fence} -> {move.new_fence}")
        if move.new_fence > move.old_fence:  # a token was drawn
            tokens[move.job_id].append((move.transaction, move.new_fence))
    for job_id, drawn in tokens.items():
        found["token_fell"] += [f"job {job_id}: {problem}" for problem in _falls(drawn)]
    found["double_committed"] += [
        f"{run} succeeded {times} times" for run, times in succeeded.items() if times > 1
    ]
    return found


def _falls(drawn: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Tokens that are not above those of earlier transactions; within one transaction there is no order."""
    before, within, current = 0, 0, ""
    for transaction, token in drawn:
        if transaction != current:
            before, current = max(before, within), transaction
        if token <= before:
            yield f"{token} after {before}"
        within = max(within, token)
