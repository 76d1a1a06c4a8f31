"""Workers: processes apart from the nodes that fire, which execute runs.

A worker is a *session*: a row in the store with what it can do, renewed every few seconds under an incarnation
that was never used before. Whoever starts a run under a token writes that incarnation into the run's row
(`Ledger.begin`), so when the session ends without a word, the runs that it held are known and start elsewhere.

A session ends in three ways. The worker *leaves* (it has handed everything back). Its silence outlasts the
session (`SESSION_MS`). Or its process is *proved* to be gone by a connection that broke and did not come back,
which is much quicker. Whoever was declared dead may still be executing: its results are refused by their tokens
once the runs have started elsewhere, and its next renewal tells it to begin anew under another incarnation.

A worker may belong to a tenant: then it gets runs of that tenant, and nothing else. One that belongs to none is
trusted by the operator and serves all tenants.

Every verb raises `StoreUnavailable` (nothing was written) or `OutcomeUnknown` (it may have been; all repeat well).
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

SESSION_MS: Final = 15_000
"""A session that was not renewed for so long is over."""
RENEW_MS: Final = 3_000
"""How often a worker renews its session."""


class WorkerNote(msgspec.Struct, frozen=True):
    """What a worker says of itself."""

    name: str = ""  # for people; two workers may have the same
    version: str = ""
    handlers: tuple[str, ...] = ()
    webhooks: bool = False
    slots: int = 1  # attempts at a time
    busy: int = 0  # attempts that run now
    run_ms: int = 0  # how long its latest attempts took, on average; 0: it does not know yet
    via: str = "store"  # or "http"
    address: str = ""  # of its peer port, as `Peers.watch` wants it; empty: it has none
    draining: bool = False
    stalled: bool = False  # it is alive, but what it took does not begin
    tenant_id: str | None = None  # whose runs it gets; None: those of all tenants


class WorkerState(msgspec.Struct, frozen=True):
    """A live session."""

    incarnation: str
    note: WorkerNote
    enlisted_ms: int
    seen_ms: int  # by the store's clock: its latest renewal


class WorkerStore(Protocol):
    """The sessions of one store. Instants are the store's clock."""

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        """Begin a session; the name was never used before."""
        ...

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        """Go on with it. False: it was declared dead, or is unknown: nothing is written."""
        ...

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        """End a session, unless it was renewed after `unseen_since_ms`; whether it is over now.

        Its runs in flight need not wait for their leases any more, exactly as after `depose(proved_dead=True)`.
        A worker that leaves ends its own session, when it holds nothing.
        """
        ...

    async def workers(self) -> Sequence[WorkerState]:
        """All live sessions, also those that are silent for too long."""
        ...
