"""The executor: makes attempts and says how they ended.

One object per kind of target (webhook, handler). The caller keeps a table of what is in flight and names each
attempt by its index there (`slot`); the executor never looks at ledgers, leases or policies. Everything runs
on the event loop's thread, in batches both ways, with no coroutine or future per attempt.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import Target
from tickwheel.domain.outcome import Outcome, ProgressNote
from tickwheel.domain.run_trace import RunTrace

Report: TypeAlias = Callable[[Sequence[int], Sequence[Outcome]], None]
"""Called with slots and outcomes, pairwise, on the loop's thread; never from inside `start` or `cancel`."""

Progress: TypeAlias = Callable[[int, ProgressNote], None]
"""Called with a slot and what its attempt says of itself, on the loop's thread; the latest counts."""


class Work(msgspec.Struct, gc=False):
    """One attempt to make. `payload` is the stored text as it is (b"" = none); texts go out as headers."""

    slot: int  # index in the caller's table; free again once it was reported
    job_id: bytes
    scheduled_ms: int
    fence: int
    attempt: int  # from 1
    max_attempts: int
    lane: int
    tenant_id: str
    target: Target
    payload: bytes
    idempotency_key: str | None  # the job's own
    job_name: str = ""
    signing_keys: tuple[bytes, ...] | None = None  # None: as the executor knows them; a server elsewhere told them
    trace: RunTrace | None = None  # None: its request was part of none

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"Work(slot={self.slot}, run={self.run_id}, attempt={self.attempt}, target={self.target!r})"

    @property
    def run_id(self) -> str:
        """Printed anew at each call: most handlers never ask."""
        return run_id_text(self.job_id, self.scheduled_ms)

    @property
    def job_id_text(self) -> str:
        """As the API names the job."""
        return job_id_text(self.job_id)


class Executor(Protocol):
    """Makes attempts; built with a `Report`.

    Every slot that was started is reported exactly once, whatever happens to it.
    """

    def start(self, works: Sequence[Work]) -> None:
        """Take all of them; what cannot even begin is reported like any other end. Loop thread only."""
        ...

    def cancel(self, slots: Sequence[int]) -> None:
        """Abort these attempts where possible; they are reported as CANCELLED, or as what they had become.

        Slots that are not in flight are ignored.
        """
        ...

    async def aclose(self, grace_ms: int) -> None:
        """Stop: what has not begun is reported UNSTARTED at once, the rest gets `grace_ms` to end.

        What is still going then is aborted and reported UNSTARTED. Returns when all is reported and released;
        nothing may be started afterwards.
        """
        ...
