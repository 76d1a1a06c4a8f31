"""Brief leases: who has just taken which hint, so that another worker needn't ask the ledger to be told the same.

They prove nothing and guard nothing: a run begins under its token in the ledger, or not at all (F1). A brief lease
that is lost costs a begin that finds the run taken; one that stays for too long costs the delay until the hint is
published again, for nobody refuses a hint twice.

Both verbs raise `ConnectionError` when it can't be reached; what was asked for may have happened, or a part of it.
"""

from typing import Protocol

from tickwheel.domain.columns import Bools, Rows


class BriefLeases(Protocol):
    """Of one holder, which every open connection belongs to."""

    async def acquire(self, hints: Rows, length_ms: int) -> Bools:
        """HINT rows; true where nobody else has it: this holder has it then, for so long."""
        ...

    async def release(self, hints: Rows) -> None:
        """Let others have these at once; what this holder hasn't got stays as it is."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
